package account

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// Move is what machines of one region and a bucket exchanged of one object.
type Move struct {
	From, To string // regions
	Object   string // BUCKET/KEY
	Bytes    int64  // in the bodies of requests and answers that succeeded
}

// Unknown is the region of a bucket that is not the deployment's, and of whom no URL was given to.
const Unknown = "?"

// Moves counts what machines read and write by signed URLs, by where they are and where the bucket is: what AWS charges
// for by the region. A URL does not say who uses it, so it is whose agent the API gave it to. Two that were given the
// same URL, for one object in one second, count as the later.
type Moves struct {
	buckets map[string]string // region, by bucket

	mu       sync.Mutex
	clusters map[string]string // region, by cluster
	given    map[string]string // cluster, by path and query of a URL
	bytes    map[Move]int64    // by what it is, without bytes
}

func newMoves(buckets map[string]string) *Moves {
	return &Moves{buckets: buckets, clusters: map[string]string{}, given: map[string]string{}, bytes: map[Move]int64{}}
}

// placed notes in which region a cluster's machines are.
func (m *Moves) placed(cluster, region string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clusters[cluster] = region
}

// granted notes which URLs the API's answer gives to an agent: grants, or where the agent's program is.
func (m *Moves) granted(r *http.Request, header map[string]string, body []byte) {
	var urls []string
	switch {
	case r.URL.Path == wire.PathGrants:
		var in wire.Granted
		_ = json.Unmarshal(body, &in) // an error of the API's has none
		for _, g := range in.Grants {
			urls = append(urls, g.URL)
		}
	case strings.HasPrefix(r.URL.Path, wire.PathProgram):
		for k, v := range header {
			if strings.EqualFold(k, "Location") {
				urls = append(urls, v)
			}
		}
	}
	cluster := clusterOf(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil && cluster != "" {
			m.given[u.RequestURI()] = cluster
		}
	}
}

// clusterOf is whom an agent's token names. Whether it is a good one is the function's matter.
func clusterOf(r *http.Request) string {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims := jwt.MapClaims{}
	_, _, _ = jwt.NewParser().ParseUnverified(bearer, claims) // what is no token names nobody
	cluster, _ := claims["cluster"].(string)
	return cluster
}

// moved notes a request by a signed URL with the bytes of its body and of its answer.
func (m *Moves) moved(r *http.Request, sent, received int64) {
	object := strings.TrimPrefix(r.URL.Path, "/")
	bucket, _, _ := strings.Cut(object, "/")
	m.mu.Lock()
	defer m.mu.Unlock()
	store := cmp.Or(m.buckets[bucket], Unknown)
	machine := cmp.Or(m.clusters[m.given[r.URL.RequestURI()]], Unknown)
	if sent > 0 {
		m.bytes[Move{From: machine, To: store, Object: object}] += sent
	}
	if received > 0 {
		m.bytes[Move{From: store, To: machine, Object: object}] += received
	}
}

// Between lists what went from one region to another, or it is not known where, by object.
func (m *Moves) Between() []Move {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Move
	for k, n := range m.bytes {
		if k.From != k.To || k.From == Unknown {
			out = append(out, Move{From: k.From, To: k.To, Object: k.Object, Bytes: n})
		}
	}
	slices.SortFunc(out, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Object, b.Object))
	})
	return out
}
