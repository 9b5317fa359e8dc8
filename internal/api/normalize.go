package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Repeated returns an error if a parameter that is not a list is given more than once.
func Repeated(op *huma.Operation, r *http.Request) *huma.ErrorDetail {
	query := r.URL.Query()
	for _, p := range op.Parameters {
		if p.In == "query" && len(query[p.Name]) > 1 && (p.Schema == nil || p.Schema.Type != huma.TypeArray) {
			return &huma.ErrorDetail{Message: "given more than once", Location: "query." + p.Name}
		}
	}
	return nil
}

// Empty returns an error if a parameter is given without a value although its type has no empty value: a number, an
// enum or a string with a pattern. huma treats such a parameter as missing.
func Empty(op *huma.Operation, r *http.Request) *huma.ErrorDetail {
	query := r.URL.Query()
	for _, p := range op.Parameters {
		if p.In == "query" && query.Has(p.Name) && query.Get(p.Name) == "" && p.Schema != nil && !takesEmpty(p.Schema) {
			return &huma.ErrorDetail{Message: "given without a value", Location: "query." + p.Name}
		}
	}
	return nil
}

// NoNumber returns an error if a number is NaN, which huma accepts because NaN exceeds no limit.
func NoNumber(op *huma.Operation, r *http.Request) *huma.ErrorDetail {
	query := r.URL.Query()
	for _, p := range op.Parameters {
		if p.In != "query" || p.Schema == nil || p.Schema.Type != huma.TypeNumber {
			continue
		}
		if f, err := strconv.ParseFloat(query.Get(p.Name), 64); err == nil && math.IsNaN(f) {
			return &huma.ErrorDetail{Message: "not a number", Location: "query." + p.Name, Value: query.Get(p.Name)}
		}
	}
	return nil
}

func takesEmpty(s *huma.Schema) bool {
	switch s.Type {
	case huma.TypeBoolean, huma.TypeInteger, huma.TypeNumber:
		return false
	case huma.TypeString:
	default:
		return true // items are checked separately
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, any("")) || s.MinLength != nil && *s.MinLength > 0 {
		return false
	}
	if s.Pattern == "" {
		return true
	}
	form, err := regexp.Compile(s.Pattern)
	return err == nil && form.MatchString("")
}

// Body returns the schema of a JSON body, or nil if the body is not JSON or not described, as for job files.
func Body(op *huma.Operation, r *http.Request) *huma.Schema {
	if op.RequestBody == nil || len(op.RequestBody.Content) != 1 {
		return nil
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "application/json" && mediaType != "" {
		return nil
	}
	described := op.RequestBody.Content["application/json"]
	if described == nil {
		return nil
	}
	return described.Schema
}

// Normalize returns errors for null where the schema does not permit it, and rewrites integers such as 187.0 without
// the point. Invalid JSON is returned unchanged, for the next reader to reject.
func Normalize(schemas huma.Registry, schema *huma.Schema, body []byte) ([]byte, []*huma.ErrorDetail) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // keeps the original text
	var v any
	if d.Decode(&v) != nil || d.Decode(new(any)) != io.EOF { //nolint:errorlint // io.EOF is never wrapped there
		return body, nil
	}
	s := strictly{schemas: schemas}
	v = s.walk(schema, "body", v)
	if len(s.errs) > 0 || !s.changed {
		return body, s.errs
	}
	out, err := json.Marshal(v)
	if err != nil { // cannot happen, since it was JSON
		return body, nil
	}
	return out, nil
}

// strictly walks a value along with its schema.
type strictly struct {
	schemas huma.Registry
	errs    []*huma.ErrorDetail
	changed bool
}

func (s *strictly) walk(schema *huma.Schema, at string, v any) any {
	for schema != nil && schema.Ref != "" {
		schema = s.schemas.SchemaFromRef(schema.Ref)
	}
	if schema == nil {
		return v
	}
	switch v := v.(type) {
	case nil:
		if schema.Type != "" && !schema.Nullable {
			s.errs = append(s.errs, &huma.ErrorDetail{Location: at,
				Message: "expected " + schema.Type + ", not null; leave it out"})
		}
	case map[string]any:
		for name, value := range v {
			within, ok := schema.Properties[name]
			if !ok {
				within, _ = schema.AdditionalProperties.(*huma.Schema)
			}
			v[name] = s.walk(within, at+"."+name, value)
		}
	case []any:
		for i, value := range v {
			v[i] = s.walk(schema.Items, fmt.Sprintf("%s[%d]", at, i), value)
		}
	case json.Number:
		if schema.Type == huma.TypeInteger && strings.ContainsAny(v.String(), ".eE") {
			f, err := v.Float64()
			if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				s.changed = true
				return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
			}
		}
	}
	return v
}
