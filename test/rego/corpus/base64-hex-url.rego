package policy

allow := true

# METADATA
# entrypoint: true
encoded := {
	"base64": base64.encode(input.s),
	"url": base64url.encode(input.s),
	"no_pad": base64url.encode_no_pad(input.s),
	"hex": hex.encode(input.s),
	"query": urlquery.encode(input.s),
}

# METADATA
# entrypoint: true
object := urlquery.encode_object({"q": input.s, "list": [input.s, "b"]})

# METADATA
# entrypoint: true
decoded := base64.decode(input.b)

# METADATA
# entrypoint: true
decoded_url := base64url.decode(input.b)

# METADATA
# entrypoint: true
valid := base64.is_valid(input.b)

# METADATA
# entrypoint: true
unhex := hex.decode(input.h)

# METADATA
# entrypoint: true
query := urlquery.decode_object(input.q)
#: {"input": {"s": "hello?&=", "b": "aGVsbG8=", "h": "6869", "q": "a=1&a=2&b=%20"}}
#: {"input": {"s": "", "b": "", "h": "", "q": ""}}
#: {"input": {"s": "日本", "b": "!!", "h": "xyz", "q": "%zz"}}
#: {"input": {"s": "a+b c/d", "b": "_-8=", "h": "C3A9", "q": "x"}}
#: {"input": {"s": "ÿþ", "b": "/+8", "h": "e9", "q": "a=b;c=d"}}
