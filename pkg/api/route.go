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

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/tes"
)

// documentVersion is the version of the API's contract, not of the program.
const documentVersion = "1.0.0"

// Names of the security schemes in the document.
const (
	userScheme  = "user"
	agentScheme = "agent"
)

// newHuma makes the registry of operations over a mux. It serves no pages of its own: the document is served by
// plainRoutes, and its viewers would load scripts from elsewhere.
func newHuma(mux *http.ServeMux) huma.API {
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Tradewind", Version: documentVersion,
				Description: "Submit DAGs of batch tasks to the broker, follow them, and ask why they run where they " +
					"do. Errors are problem documents (RFC 9457). Times are RFC 3339, amounts of money USD, spans of " +
					"time hours unless a field says otherwise.",
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Tags: []*huma.Tag{
				{Name: "jobs", Description: "Submit and follow jobs"},
				{Name: "capacity", Description: "Queues, and places that are not tried now"},
				{Name: "pools", Description: "Machines that you have already"},
				{Name: "tes", Description: "The task execution service of GA4GH, 1.1"},
				{Name: "operations", Description: "Events that were given up"},
				{Name: "agent", Description: "What the agent on a machine calls; the token names its cluster and rank"},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					userScheme:  {Type: "http", Scheme: "bearer", Description: "The deployment's user token"},
					agentScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "A node's token"},
					machineScheme: {Type: "http", Scheme: "bearer", BearerFormat: "JWT",
						Description: "The token of a pool's machine, or one to join with"},
				},
			},
		},
		Formats: map[string]huma.Format{"application/json": huma.DefaultJSONFormat,
			"json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
	// huma's own answers have its type of the same name.
	cfg.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[apitypes.ErrorDetail](), reflect.TypeFor[huma.ErrorDetail]())
	// Agents of another version may say more than this one understands.
	cfg.AllowAdditionalPropertiesByDefault = true
	return humago.New(mux, cfg)
}

// schemaName is what the document calls a type. Those of the task execution service are named as there.
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

// body is an answer that is a body and nothing else.
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
			return nil, a.fail(ctx, err)
		}
		return out, nil
	})
}

// schema is a reference to the schema of a value's type.
func (a *API) schema(v any) *huma.Schema {
	return a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// answers describes an answer of 200 that is not JSON.
func answers(description, contentType string, schema *huma.Schema) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: description, Content: map[string]*huma.MediaType{contentType: {Schema: schema}},
	}}
}

// render writes the document as a file that people diff.
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
