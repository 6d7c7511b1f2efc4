package policy

default allow := false

allow if {
	[valid, _, payload] := io.jwt.decode_verify(input.token, {"secret": "secret", "alg": "HS256", "iss": data.params.iss})
	valid
	payload.sub == "alice"
}

# METADATA
# entrypoint: true
decoded := io.jwt.decode(input.token)

# METADATA
# entrypoint: true
verified := io.jwt.verify_hs256(input.token, "secret")

# METADATA
# entrypoint: true
signed := io.jwt.encode_sign({"typ": "JWT", "alg": "HS256"}, {"sub": "x", "n": 1.50}, {"kty": "oct", "k": "c2VjcmV0"})
#: {"input": {"token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImlzcyI6Im1lIn0.RGWIfoB9NG4B7Xzv_oFnWoCJGXgCeUQ0CETCgOBS07A"}, "params": {"iss": "me"}}
#: {"input": {"token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImlzcyI6InlvdSJ9.hrROTPeXxeCyrn1dn864s3z9r0sGtCXDbd38UT2Rbio"}, "params": {"iss": "me"}}
#: {"input": {"token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJib2IiLCJpc3MiOiJtZSJ9.DrfJKfCW7b0KBTr141dbLuZ-5AZxpOV7bdT6gTtywSE"}, "params": {"iss": "me"}}
#: {"input": {"token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImlzcyI6Im1lIn0.fEb1wHRkc8bO-wKW39jj-ePZXX5vu8Va6cR2if2UMmQ"}, "params": {"iss": "me"}}
#: {"input": {"token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImlzcyI6Im1lIiwiZXhwIjoxNzU3MDAwMDAxfQ.kywHeVeBbxgU9mH1pTz5rWUpqa-yJGoWghnNmuLcyAw"}, "params": {"iss": "me"}}
#: {"input": {"token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImlzcyI6Im1lIiwiZXhwIjoxNzU2OTk5OTk5fQ.iGuiC5GS-cvBDNN5oImUY2zOHMzmGGRjWfHC2FrxUz0"}, "params": {"iss": "me"}}
#: {"input": {"token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImlzcyI6Im1lIiwibmJmIjoxNzU3MDAwMDAxfQ.4w9c41PRcouvF764a8AhCm_wa6l6KtoNp832ubmB_5E"}, "params": {"iss": "me"}}
#: {"input": {"token": "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImlzcyI6Im1lIn0.SMFAGfAQkrcR30m2w1ZCMTMfsyNMn6FuQvdf9mm-Gw_U47Ez8tBdaCnlLRHD6V1qeQlCQoGr0CTFSNBP3wu6Rw"}, "params": {"iss": "me"}}
#: {"input": {"token": "not.a.token"}, "params": {"iss": "me"}}
#: {"input": {"token": ""}, "params": {"iss": "me"}}
