-- What the appliance needs beside the API: logins, retention, where evidence is kept.

-- Logins of people: passwords, sessions, identities at OpenID providers.

-- Retention: rules, legal holds, and what was deleted under them.

-- Where evidence is kept.
