#!/usr/bin/env python3
"""Writes one object of every built-in kind, as conformance/api compares them, for the client programs.

  kinds.py FILE
"""
import json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'api'))
import mutations

# A custom resource has no typed client; `apiservice` and `crd` keep the names their validation asks for.
LEFT_OUT = {'custom'}

kinds = []
for key, (api_version, resource, template, namespaced) in sorted(mutations.more.KINDS.items()):
    if key in LEFT_OUT or template is None:
        continue
    name = mutations.NAMES.get(key, (None,))[0]
    body = json.loads(json.dumps(template))
    body.update(apiVersion=api_version, metadata={'labels': {'l': 'v'}})
    kinds.append({'key': key, 'apiVersion': api_version, 'resource': resource, 'namespaced': namespaced, 'name': name or '', 'object': body})
with open(sys.argv[1], 'w') as file:
    json.dump(kinds, file)
