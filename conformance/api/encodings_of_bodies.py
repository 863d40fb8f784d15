"""encodings_of_bodies: request bodies in the other forms a server may read, for mutations.py.

Protobuf is written from the field numbers of the schema table in crates/manifest/data. What a form cannot say
(a text where a number belongs, a field nobody knows) has no body in it: encode gives None.
"""
import base64, datetime, json, os, struct, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {'json': 'application/json', 'yaml': 'application/yaml', 'protobuf': 'application/vnd.kubernetes.protobuf', 'cbor': 'application/cbor'}


class Unsayable(Exception):
    pass


def encode(form, body):
    """The body in a form, or None where the form has none for it."""
    try:
        return {'json': as_json, 'yaml': as_yaml, 'protobuf': as_protobuf, 'cbor': as_cbor}[form](body)
    except Unsayable:
        return None


def as_json(body):
    return json.dumps(body)


def as_yaml(body):
    """Block style with quoted texts, so that nothing is read as something else."""
    def lines(v, depth):
        pad = '  ' * depth
        if isinstance(v, dict) and v:
            for k, x in v.items():
                yield from entry(pad + json.dumps(k) + ':', x, depth)
        elif isinstance(v, list) and v:
            for x in v:
                yield from entry(pad + '-', x, depth)
        else:
            yield pad + json.dumps(v)

    def entry(head, v, depth):
        if isinstance(v, (dict, list)) and v:
            yield head
            yield from lines(v, depth + 1)
        else:
            yield head + ' ' + json.dumps(v)

    return '\n'.join(lines(body, 0)) + '\n'


def as_cbor(v):
    def head(major, n):
        for size, code in ((1, 24), (2, 25), (4, 26), (8, 27)):
            if n < 24:
                return bytes([major << 5 | n])
            if n < 1 << 8 * size:
                return bytes([major << 5 | code]) + n.to_bytes(size, 'big')
        raise Unsayable
    if v is None or isinstance(v, bool):
        return {None: b'\xf6', True: b'\xf5', False: b'\xf4'}[v]
    if isinstance(v, int):
        return head(0, v) if v >= 0 else head(1, -1 - v)
    if isinstance(v, float):
        return b'\xfb' + struct.pack('>d', v)
    if isinstance(v, str):
        raw = v.encode()
        return head(2, len(raw)) + raw      # texts travel as bytes
    if isinstance(v, list):
        return head(4, len(v)) + b''.join(map(as_cbor, v))
    return head(5, len(v)) + b''.join(as_cbor(k) + as_cbor(x) for k, x in v.items())


# ---------------------------------------------------------------------------------------------------- protobuf
def table():
    with open(os.path.join(HERE, '../../crates/manifest/data/schema.bin'), 'rb') as f:
        data = f.read()
    length = struct.unpack('<I', data[4:8])[0]
    return json.loads(zlib.decompress(data[8:8 + length], -15))


TABLE = table()
SPECIAL = {'resource.Quantity', 'intstr.IntOrString', 'v1.Time', 'time.Time', 'v1.MicroTime', 'v1.JSON', 'runtime.RawExtension', 'v1.FieldsV1'}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def chunk(field, raw):
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def as_protobuf(body):
    root = TABLE['roots'].get('%s/%s' % (body.get('apiVersion'), body.get('kind')))
    if root is None:
        raise Unsayable
    meta = chunk(1, body['apiVersion'].encode()) + chunk(2, body['kind'].encode())
    members = {k: v for k, v in body.items() if k not in ('apiVersion', 'kind')}
    return b'k8s\0' + chunk(1, meta) + chunk(2, message(root, members)) + chunk(3, b'') + chunk(4, b'')


def names(index):
    """The members an object of a type may have, those of embedded structs among them."""
    for row in TABLE['types'][index]['f']:
        if len(row) > 6 and row[6].get('i'):
            yield from names(int(row[1].lstrip('*#')))
        else:
            yield row[0]


def message(index, value):
    if not isinstance(value, dict) or set(value) - set(names(index)):
        raise Unsayable
    out = []
    for row in TABLE['types'][index]['f']:
        if not row[3]:
            continue
        field = int(row[3])
        if len(row) > 6 and row[6].get('i'):
            inner = int(row[1].lstrip('*#'))
            out.append((field, chunk(field, message(inner, {k: v for k, v in value.items() if k in set(names(inner))}))))
        elif value.get(row[0]) is not None:
            out.append((field, member(field, row[1].lstrip('*'), value[row[0]])))
        elif row[0] in value:
            raise Unsayable
    return b''.join(raw for _, raw in sorted(out, key=lambda x: x[0]))


def member(field, kind, value):
    if kind.startswith('[]'):
        if not isinstance(value, list) or not value:
            raise Unsayable         # protobuf has no empty list
        return b''.join(single(field, kind[2:], v) for v in value)
    if kind.startswith('map[string]'):
        if not isinstance(value, dict) or not value:
            raise Unsayable
        inner = kind[len('map[string]'):]
        entry = lambda v: chunk(2, member(1, inner, v)) if inner.startswith('[]') else single(2, inner, v)
        return b''.join(chunk(field, chunk(1, k.encode()) + entry(v)) for k, v in sorted(value.items()))
    return single(field, kind, value)


def single(field, kind, value):
    def of(t):
        if not isinstance(value, t) or isinstance(value, bool) and t is not bool:
            raise Unsayable
        return value
    if kind.startswith('#'):
        index = int(kind[1:])
        name = TABLE['types'][index]['n']
        if name.startswith('v1.JSONSchemaPropsOr'):
            raise Unsayable
        return chunk(field, special(name, value) if name in SPECIAL else message(index, value))
    if kind == 'string':
        return chunk(field, of(str).encode())
    if kind == 'bytes':
        try:
            return chunk(field, base64.b64decode(of(str), validate=True))
        except ValueError:
            raise Unsayable
    if kind == 'bool':
        return number(field, of(bool))
    if kind in ('int32', 'int64'):
        if not -(1 << int(kind[3:]) - 1) <= of(int) < 1 << int(kind[3:]) - 1:
            raise Unsayable
        return number(field, value)
    if kind == 'float64':
        return varint(field << 3 | 1) + struct.pack('<d', of((int, float)))
    return chunk(field, chunk(1, json.dumps(value).encode()))


def special(name, value):
    if name == 'resource.Quantity':
        if not isinstance(value, str):
            raise Unsayable
        return chunk(1, value.encode())
    if name == 'intstr.IntOrString':
        if isinstance(value, str):
            return number(1, 1) + number(2, 0) + chunk(3, value.encode())
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 31:
            raise Unsayable
        return number(1, 0) + number(2, value) + chunk(3, b'')
    if name.endswith('Time'):
        try:
            at = datetime.datetime.fromisoformat(value.replace('Z', '+00:00'))
        except (AttributeError, ValueError):
            raise Unsayable
        if at.tzinfo is None:
            raise Unsayable
        return number(1, int(at.timestamp())) + number(2, at.microsecond * 1000)
    return chunk(1, json.dumps(value).encode())
