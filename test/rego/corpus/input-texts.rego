package policy

allow := true

# METADATA
# entrypoint: true
same := input

# METADATA
# entrypoint: true
sizes := [count(v) | some v in input; is_string(v)]
#: {"input": {"a": 1, "b": 2, "a": [3]}}
#: {"input": {"a": 1, "\u0061": 2}}
#: {"input": {"s": "\ud83d\ude00 \ud800 \udc00x \u00e9 \n\t\"\\\/", "\ud800": 1}}
#: {"input":  [ 1 , -0 , 0.0 , 1E5 , 1e-7 , 1.50 , -12.0e+3 ] }
#: {"input": {"": {"": [[], {}, [{}]]}, "true": true, "null": null, "false": false}}
#: {"input": "only a text"}
#: {"input": 12345678901234567890.123456789}
#: {"input": null}
#: {"input": [[[[[[[[[[[[[[[[[[[["deep"]]]]]]]]]]]]]]]]]]]]}
#: {"input": {"k0": 0, "k1": 1, "k2": 2, "k3": 3, "k4": 4, "k5": 5, "k6": 6, "k7": 7, "k8": 8, "k9": 9, "ka": 10, "kb": 11, "kc": 12, "kd": 13, "ke": 14, "kf": 15, "kg": 16, "kh": 17, "k0": 18, "kg": 19, "k9": 20, "z": 1}}
#: {"input": ["\u2028", "<&>", "é日🎉", "\u0000", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]}
