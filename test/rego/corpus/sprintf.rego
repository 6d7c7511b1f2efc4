package policy

allow := true

# METADATA
# entrypoint: true
out := [sprintf(f, input.args) | some f in input.formats]
#: {"input": {"formats": ["%s %d", "%v|%v", "%5d|%-5s|", "%05.2f"], "args": ["a", 3]}}
#: {"input": {"formats": ["%d", "%x", "%o", "%b", "%c", "%e", "%g", "%f"], "args": [65]}}
#: {"input": {"formats": ["%v", "%s"], "args": [{"a": [1, null, true]}]}}
#: {"input": {"formats": ["%s"], "args": []}}
#: {"input": {"formats": ["%%", "%q", "%t"], "args": ["a\"b"]}}
#: {"input": {"formats": ["%.2f", "%d"], "args": [1.005]}}
#: {"input": {"formats": ["%[2]s %[1]s"], "args": ["x", "y"]}}
