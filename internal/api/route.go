package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tradewind-broker/tradewind/internal/tes"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// documentVersion is the version of the API's contract, not of the program.
const documentVersion = "1.0.0"

// Names of the security schemes in the document.
const (
	userScheme  = "user"
	agentScheme = "agent"
)

// newHuma makes the registry of operations over a mux. It serves no pages: plainRoutes serves the document, and huma's
// viewers would load scripts from other sites.
func newHuma(mux *http.ServeMux) huma.API {
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:   "Tradewind",
				Version: documentVersion,
				Description: "Submit DAGs of batch tasks to the broker, follow them, and find out why they run " +
					"where they " +
					"do. Errors are problem documents (RFC 9457). Times are RFC 3339, amounts of money are USD, " +
					"durations " +
					"are hours unless a field says otherwise.",
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Tags: []*huma.Tag{
				{Name: "jobs", Description: "Submit and follow jobs"},
				{Name: "capacity", Description: "Queues, and places that the broker does not try now"},
				{Name: "pools", Description: "Machines that you already own"},
				{Name: "tes", Description: "The task execution service of GA4GH, 1.1"},
				{Name: "operations", Description: "Dead letters: events that the broker stopped delivering"},
				{Name: "agent", Description: "Calls of the agent on a machine; the token names its cluster and rank"},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					userScheme:  {Type: "http", Scheme: "bearer", Description: "The deployment's user token"},
					agentScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "A node's token"},
					machineScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT",
						Description: "The token of a pool's machine, or a join token"},
				},
			},
		},
		Formats: map[string]huma.Format{"application/json": huma.DefaultJSONFormat,
			"json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
	// huma's own responses use its type of the same name.
	cfg.Components.Schemas.RegisterTypeAlias(
		reflect.TypeFor[apitypes.ErrorDetail](),
		reflect.TypeFor[huma.ErrorDetail](),
	)
	// Agents of a newer version may send more fields than this one knows.
	cfg.AllowAdditionalPropertiesByDefault = true
	return humago.New(mux, cfg)
}

// schemaName returns the name of a type in the document. Types of TES have the names of its specification.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == reflect.TypeFor[tes.Task]().PkgPath() && t.Name() != "" {
		return "tes" + name
	}
	return name
}

// body is a response that consists of only a body.
type body[T any] struct{ Body T }

// userRoute registers an operation for users.
func userRoute[I, O any](a *API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.Security = []map[string][]string{{userScheme: {}}}
	op.Middlewares = huma.Middlewares{a.users, a.strict}
	op.RejectUnknownQueryParameters = true
	register(a, op, handle)
}

// agentRoute registers an operation for agents.
func agentRoute[I, O any](a *API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.Security = []map[string][]string{{agentScheme: {}}}
	op.Middlewares = huma.Middlewares{a.agents}
	op.Tags = []string{"agent"}
	register(a, op, handle)
}

func register[I, O any](a *API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.BodyReadTimeout = bodyWithin
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "A problem document",
		Content:     map[string]*huma.MediaType{apitypes.ProblemType: {Schema: a.schema(apitypes.Problem{})}},
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, a.toProblem(ctx, err)
		}
		return out, nil
	})
}

// schema returns a reference to the schema of a value's type.
func (a *API) schema(v any) *huma.Schema {
	return a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// answers describes a 200 response that is not JSON.
func answers(description, contentType string, schema *huma.Schema) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: description, Content: map[string]*huma.MediaType{contentType: {Schema: schema}},
	}}
}

// render formats the document so that it can be diffed.
func render(doc *huma.OpenAPI) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("api: openapi.json: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("api: openapi.json: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
