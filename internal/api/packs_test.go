package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/pack/depot"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// lacks is a depot that has only pieces of one byte, and refuses pieces of two bytes.
type lacks struct{}

func (lacks) Missing(_ context.Context, pieces []pack.Piece) (out []apitypes.Lack, err error) {
	for _, p := range pieces {
		if p.Size == 2 {
			return nil, fmt.Errorf("%w: of two bytes", depot.ErrAsk)
		}
		if p.Size > 1 {
			out = append(out, apitypes.Lack{Digest: p.Digest, Grant: grant.Grant{
				Method: "PUT", URL: "https://x/y?z", Header: map[string]string{"A": "b"}, Expires: time.Unix(1, 0).UTC(),
			}})
		}
	}
	return out, nil
}

func TestMissingPiecesReturnsGrants(t *testing.T) {
	w := apitest.New(t, func(c *api.Config) {
		c.Packs = lacks{}
		c.Objects = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	})
	digest := string(pack.DigestOf([]byte("x")))
	ask := func(size int) string { return fmt.Sprintf(`{"pieces": [{"digest": %q, "size": %d}]}`, digest, size) }
	got := answer[apitypes.Missing](t, w.Request("POST", "/v1/packs/missing", ask(3)), http.StatusOK)
	if len(got.Missing) != 1 || string(got.Missing[0].Digest) != digest || got.Missing[0].Grant.URL != "https://x/y?z" ||
		got.Missing[0].Grant.Header["A"] != "b" {
		t.Errorf("%+v", got)
	}
	if s := body(t, w.Request("POST", "/v1/packs/missing", ask(1))); s != "{\"missing\":[]}\n" {
		t.Errorf("nothing is missing: %s", s)
	}
	trouble(t, w.Request("POST", "/v1/packs/missing", ask(2)), http.StatusUnprocessableEntity)
	trouble(t, w.Request("POST", "/v1/packs/missing", `{"pieces": []}`), http.StatusUnprocessableEntity)
	if s := body(t, w.Do("GET", "/v1/objects/a/b?signed", "", http.Header{})); s != "/v1/objects/a/b" {
		t.Errorf("a request with a signed URL: %s", s)
	}
}

func TestMissingPiecesWithoutDepotAnswers501(t *testing.T) {
	w := apitest.New(t)
	digest := string(pack.DigestOf([]byte("x")))
	trouble(t, w.Request("POST", "/v1/packs/missing", fmt.Sprintf(`{"pieces": [{"digest": %q, "size": 1}]}`, digest)),
		http.StatusNotImplemented)
	job := "apiVersion: tradewind/v1\nname: x\ntasks: {a: {run: ls, workdir: %s}}\n"
	p := trouble(t, w.Request("POST", "/v1/dags?name=x.yaml", fmt.Sprintf(job, "pack://"+digest+"/code")),
		http.StatusUnprocessableEntity)
	if p.File != "x.yaml" || p.Line != 3 || p.Field != "tasks.a.workdir" || p.Reason != "this broker cannot store uploaded folders" {
		t.Errorf("%+v", p)
	}
	p = trouble(t, w.Request("POST", "/v1/dags?name=x.yaml", fmt.Sprintf(job, "./code")), http.StatusUnprocessableEntity)
	if p.Line != 3 || p.Reason != `"./code" is a path on the submitter's own computer` {
		t.Errorf("%+v", p)
	}
}
