package native

import _ "embed"

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 2020-12) of the native format, for editors. It describes each field; rules
// that concern several fields, such as cycles, are only checked by the reader. It is generated: see
// TestSchemaIsCurrent.
func Schema() []byte { return []byte(schema) }
