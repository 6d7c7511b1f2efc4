package acme.release.v2

import data.acme.lib

default allow := false

allow if lib.is_signed(input)

#: file lib/signed.rego
package acme.lib

is_signed(x) if x.signature.verified

is_signed(x) if x.signer in data.signers

#: file data.json
{"signers": ["alice", "bob"]}
#: {"input": {"signature": {"verified": true}}}
#: {"input": {"signer": "alice"}}
#: {"input": {"signer": "eve"}}
#: {"input": {}}
