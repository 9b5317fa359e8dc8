package account

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	grants "github.com/tradewind-broker/tradewind/pkg/grant"
)

func TestMovesCountForAgentWithURL(t *testing.T) {
	m := newMoves(map[string]string{"work-east": "us-east-1", "work-west": "us-west-2"})
	m.Placed("j.0.1", "us-east-1")
	m.Placed("j.1.1", "us-west-2")
	const host = "http://127.0.0.1:1"
	as := func(cluster, path string) *http.Request {
		text, err := token.Mint(bytes.Repeat([]byte("k"), token.MinKeyBytes),
			wire.Claims{Job: "j", Cluster: cluster, Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, host+path, nil)
		r.Header.Set("Authorization", "Bearer "+text)
		return r
	}
	give := func(cluster, url string) {
		body, err := json.Marshal(wire.Granted{Grants: []grants.Grant{{Method: http.MethodGet, URL: host + url}}})
		if err != nil {
			t.Fatal(err)
		}
		m.granted(as(cluster, wire.PathGrants), nil, body)
	}
	use := func(url string, sent, received int64) {
		m.moved(httptest.NewRequest(http.MethodGet, host+url, nil), sent, received)
	}
	give("j.0.1", "/work-west/j/a?X-Amz-Signature=1&x=a%2Fb")
	give("j.1.1", "/work-west/j/a?X-Amz-Signature=2")
	give("j.1.1", "/work-east/j/b?X-Amz-Signature=3")
	m.granted(as("j.1.1", wire.PathProgram+"ab"),
		map[string]string{"location": host + "/work-east/agent/x?X-Amz-Signature=4"}, nil)
	use("/work-west/j/a?X-Amz-Signature=1&x=a%2Fb", 0, 100) // read from a machine in the east
	use("/work-west/j/a?X-Amz-Signature=1&x=a%2Fb", 0, 20)
	use("/work-west/j/a?X-Amz-Signature=2", 7, 0) // written from a machine in the west, where the bucket is
	use("/work-east/j/b?X-Amz-Signature=3", 30, 0)
	use("/work-east/agent/x?X-Amz-Signature=4", 0, 9)
	use("/work-west/j/a?X-Amz-Signature=5", 0, 1) // no agent got this URL
	use("/other/j/a?X-Amz-Signature=3", 0, 2)     // a bucket outside of the deployment counts, too
	m.granted(as("j.9.9", wire.PathHello), nil, []byte(`{"grants":[{"url":"`+host+`/work-west/x"}]}`))
	if len(m.given) != 4 {
		t.Errorf("%d URLs were given", len(m.given))
	}
	want := []Move{
		{Unknown, Unknown, "other/j/a", 2}, {"us-east-1", "us-west-2", "work-east/agent/x", 9},
		{"us-west-2", Unknown, "work-west/j/a", 1}, {"us-west-2", "us-east-1", "work-east/j/b", 30},
		{"us-west-2", "us-east-1", "work-west/j/a", 120},
	}
	if got := m.Between(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
