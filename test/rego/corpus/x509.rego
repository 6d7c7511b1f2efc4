package policy

allow := true

# METADATA
# entrypoint: true
parsed := [c.Subject.CommonName | some c in crypto.x509.parse_certificates(input.pem)]

# METADATA
# entrypoint: true
verified := crypto.x509.parse_and_verify_certificates(input.pem)[0]
#: {"input": {"pem": "-----BEGIN CERTIFICATE-----\nMIIBdjCCAR2gAwIBAgIUfUkRs4hkZoG33daPXi8LrS9NBu0wCgYIKoZIzj0EAwIw\nETEPMA0GA1UEAwwGY29ycHVzMB4XDTI2MTEyNjA2MzM0MloXDTM2MTEyMzA2MzM0\nMlowETEPMA0GA1UEAwwGY29ycHVzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n/QcY0V8WK++kNzJD64AyMVRKx4M9WtX+CUQtqgKZsixUgMhU718vGAf7fjHIzPf0\nCGEZs9vEND9TiCtaCWlCnKNTMFEwHQYDVR0OBBYEFMa0H7tmcriGytz8qHeMHn6p\nUCaUMB8GA1UdIwQYMBaAFMa0H7tmcriGytz8qHeMHn6pUCaUMA8GA1UdEwEB/wQF\nMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgQS6d/JUSUQBzj35j8C/q3ftdk6oPtmnZ\nQlzX7DcOYisCIDW8A/oDA5CyYJuv+7RHior5/uzkcFXvxAvFrXvHa37V\n-----END CERTIFICATE-----\n"}}
#: {"input": {"pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}}
#: {"input": {"pem": ""}}
