package policy

import data.lib.strings as s
import input.user as user
import rego.v1

default allow := false

allow if s.is_short(user.name)

allow if data.lib.strings.known[user.name]

#: file lib.rego
package lib.strings

import rego.v1

is_short(x) if count(x) < 4

known contains "margaret"
#: {"input": {"user": {"name": "bob"}}}
#: {"input": {"user": {"name": "margaret"}}}
#: {"input": {"user": {"name": "gertrude"}}}
#: {"input": {"user": {}}}
#: {"input": {}}
