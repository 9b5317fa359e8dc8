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

	"github.com/tradewind-broker/tradewind/pkg/api/internal/strict"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// strict holds requests to their description where huma is lenient: parameters that are given twice or without a
// value, NaN, null where a value belongs. And it is lenient where the description is: 187.0 is an integer (JSON Schema,
// validation, section 4.2.1).
func (a *API) strict(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	if wrong := cmp.Or(strict.Repeated(op, r), strict.Empty(op, r), strict.NoNumber(op, r)); wrong != nil {
		writeProblem(w, invalid(wrong))
		return
	}
	schema := strict.Body(op, r)
	if schema == nil {
		next(ctx)
		return
	}
	// As huma would, for the body is read here in its stead.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin)) // tests' recorders have none
	limit := cmp.Or(op.MaxBodyBytes, 1<<20)                                       // as huma's
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		writeProblem(w, tooLarge(big.Limit))
		return
	case err != nil:
		writeProblem(w, problem(http.StatusBadRequest, "the body cannot be read"))
		return
	}
	body, wrong := strict.Mend(a.huma.OpenAPI().Components.Schemas, schema, body)
	if len(wrong) > 0 {
		writeProblem(w, invalid(wrong...))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(ctx)
}

// invalid is a request that is not as it is described.
func invalid(errs ...*huma.ErrorDetail) *apitypes.Problem {
	p := problem(http.StatusUnprocessableEntity, "validation failed")
	for _, e := range errs {
		p.Errors = append(p.Errors, apitypes.ErrorDetail(*e))
	}
	return p
}
