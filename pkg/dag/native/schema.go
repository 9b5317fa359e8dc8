package native

import _ "embed"

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 2020-12) of the native form, for editors. It says which
// fields there are and what they look like; what concerns several of them, such as cycles, only a
// reader finds. It is generated: see TestSchemaIsCurrent.
func Schema() []byte { return []byte(schema) }
