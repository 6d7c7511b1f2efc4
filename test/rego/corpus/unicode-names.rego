package policy

allow := true

# METADATA
# entrypoint: true
out := {k: v | some k, v in input}

# METADATA
# entrypoint: true
sorted := sort([k | some k, _ in input])
#: {"input": {"b": 1, "a": 2, "Z": 3, "é": 4, "日": 5, "🎉": 6, "ａ": 7}}
#: {"input": {"": 0, " ": 1, "\u0000": 2, "__proto__": 3, "constructor": 4, "toString": 5}}
#: {"input": {}}
