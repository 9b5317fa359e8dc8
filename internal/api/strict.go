package api

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// strict enforces the API's description where huma is lenient: it rejects repeated parameters, parameters without a
// value, NaN, and null instead of a value. Where huma is stricter than the description, strict is lenient: 187.0 is
// an integer (JSON Schema, validation, section 4.2.1).
func (a *API) strict(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	if wrong := cmp.Or(Repeated(op, r), Empty(op, r), NoNumber(op, r)); wrong != nil {
		writeProblem(w, invalid(wrong))
		return
	}
	schema := Body(op, r)
	if schema == nil {
		next(ctx)
		return
	}
	// As huma would; the body is read here instead.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin)) // not supported by tests' recorders
	limit := cmp.Or(op.MaxBodyBytes, 1<<20)                                       // huma's default
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		writeProblem(w, tooLarge(big.Limit))
		return
	case err != nil:
		writeProblem(w, problem(http.StatusBadRequest, "the body could not be read"))
		return
	}
	body, wrong := Normalize(a.huma.OpenAPI().Components.Schemas, schema, body)
	if len(wrong) > 0 {
		writeProblem(w, invalid(wrong...))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(ctx)
}

// invalid is the response to a request that does not match its description.
func invalid(errs ...*huma.ErrorDetail) *apitypes.Problem {
	p := problem(http.StatusUnprocessableEntity, "validation failed")
	for _, e := range errs {
		p.Errors = append(p.Errors, apitypes.ErrorDetail(*e))
	}
	return p
}
