"""Records anew what real Helm answers to the inputs in these files.

Usage: python3 record.py [path to helm 3.17.3]
Each line of parse.jsonl, emit.jsonl and pretty.jsonl is [input, answer]; answers are overwritten.
"""

import base64, json, pathlib, re, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).parent
HELM = sys.argv[1] if len(sys.argv) > 1 else "helm"
TEMPLATE = """{{- range $i, $c := .Values.cases }}
r{{ $i }}: {{ if eq $c.op "parse" }}{{ fromYaml $c.v | toJson | b64enc }}{{ else if eq $c.op "emit" }}{{ toYaml $c.v | b64enc }}{{ else }}{{ toYamlPretty $c.v | b64enc }}{{ end }}
{{- end }}
"""


def quoted(text):
    """A YAML double-quoted scalar; JSON's surrogate escapes are not YAML."""
    out = ""
    for c in text:
        n = ord(c)
        if c in '"\\':
            out += "\\" + c
        elif 0x20 <= n < 0x7F:
            out += c
        else:
            out += "\\x%02x" % n if n < 0x100 else "\\u%04x" % n if n < 0x10000 else "\\U%08x" % n
    return f'"{out}"'


def yaml(value):
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"? {quoted(k)} : {yaml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def record(op, inputs):
    with tempfile.TemporaryDirectory() as directory:
        chart = pathlib.Path(directory)
        (chart / "templates").mkdir()
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: probe\nversion: 0.1.0\n")
        (chart / "templates" / "t.yaml").write_text(TEMPLATE)
        cases = "".join(f"- {{op: {op}, v: {yaml(value)}}}\n" for value in inputs)
        (chart / "values.yaml").write_text("cases:\n" + cases)
        run = subprocess.run([HELM, "template", "x", directory], capture_output=True, text=True, check=True)
    answers = {}
    for number, answer in re.findall(r"^r(\d+): ?(.*)$", run.stdout, re.M):
        text = base64.b64decode(answer).decode()
        answers[int(number)] = json.loads(text) if op == "parse" else text
    return [answers[i] for i in range(len(inputs))]


if __name__ == "__main__":
    for op in ("parse", "emit", "pretty"):
        file = HERE / f"{op}.jsonl"
        inputs = [json.loads(line)[0] for line in file.read_text().splitlines()]
        lines = [json.dumps(pair) for pair in zip(inputs, record(op, inputs))]
        file.write_text("\n".join(lines) + "\n")
