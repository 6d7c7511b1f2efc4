package policy

allow := true

# METADATA
# entrypoint: true
violations contains v if some v in input.v
#: {"input": {"v": ["kept", "although allowed"]}}
#: {"input": {"v": []}}
