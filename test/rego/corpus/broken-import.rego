package policy

import foo.bar

allow := true
