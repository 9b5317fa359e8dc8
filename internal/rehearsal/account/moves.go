package account

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// Move is the data that machines of one region and a bucket exchanged for one object.
type Move struct {
	From, To string // regions
	Object   string // BUCKET/KEY
	Bytes    int64  // in the bodies of requests and answers that succeeded
}

// Unknown is the region of a bucket outside the deployment, or of a client that was not given the URL.
const Unknown = "?"

// Moves counts the data that machines read and write by signed URLs, by their region and the bucket's, because AWS
// charges by region. A URL does not show its user, so it counts for the agent that the API gave it to. If two agents
// get the same URL, for one object in one second, it counts for the later one.
type Moves struct {
	buckets map[string]string // region, by bucket

	mu       sync.Mutex
	clusters map[string]string // region, by cluster
	given    map[string]string // cluster, by path and query of a URL
	bytes    map[way]int64
}

// way is the path of an object between a machine and its store.
type way struct {
	cluster, store, object string
	read                   bool
}

func newMoves(buckets map[string]string) *Moves {
	return &Moves{buckets: buckets, clusters: map[string]string{}, given: map[string]string{}, bytes: map[way]int64{}}
}

// Placed sets the region of a cluster's machines, or for other clouds their place, CLOUD:REGION.
func (m *Moves) Placed(cluster, region string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clusters[cluster] = region
}

// granted records the URLs that the API's answer gives to an agent: grants, or the location of the agent's program.
func (m *Moves) granted(r *http.Request, header map[string]string, body []byte) {
	var urls []string
	switch {
	case r.URL.Path == wire.PathGrants:
		var in wire.Granted
		_ = json.Unmarshal(body, &in) // an error answer has none
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

// clusterOf returns the cluster in an agent's token. Checking the token is up to the function.
func clusterOf(r *http.Request) string {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims := jwt.MapClaims{}
	_, _, _ = jwt.NewParser().ParseUnverified(bearer, claims) // an invalid token has no claims
	cluster, _ := claims["cluster"].(string)
	return cluster
}

// moved records a request by a signed URL with the sizes of its body and its answer.
func (m *Moves) moved(r *http.Request, sent, received int64) {
	object := strings.TrimPrefix(r.URL.Path, "/")
	bucket, _, _ := strings.Cut(object, "/")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(way{cluster: m.given[r.URL.RequestURI()], store: cmp.Or(m.buckets[bucket], Unknown), object: object}, sent,
		received)
}

func (m *Moves) note(w way, sent, received int64) {
	if sent > 0 {
		m.bytes[w] += sent
	}
	if w.read = true; received > 0 {
		m.bytes[w] += received
	}
}

// Through counts the data that machines read and write in next, the store of another cloud at one place. Requests with
// URLs that were not given to an agent come from the functions, which move no data.
func (m *Moves) Through(place string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &counted{ReadCloser: r.Body}
		r.Body = body
		answer := &measured{ResponseWriter: w, status: http.StatusOK}
		uri := r.URL.RequestURI()
		object := strings.TrimPrefix(r.URL.Path, "/")
		next.ServeHTTP(answer, r)
		m.mu.Lock()
		defer m.mu.Unlock()
		if cluster := m.given[uri]; cluster != "" && answer.status < http.StatusMultipleChoices {
			m.note(way{cluster: cluster, store: place, object: object}, body.n, int64(answer.size))
		}
	})
}

// counted counts the bytes read from a body.
type counted struct {
	io.ReadCloser
	n int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n += int64(n)
	return n, err
}

// Between returns the data that moved between two regions, or between unknown ones, by object.
func (m *Moves) Between() []Move {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := map[Move]int64{}
	for k, n := range m.bytes {
		move := Move{From: cmp.Or(m.clusters[k.cluster], Unknown), To: k.store, Object: k.object}
		if k.read {
			move.From, move.To = move.To, move.From
		}
		sums[move] += n
	}
	var out []Move
	for k, n := range sums {
		if k.From != k.To || k.From == Unknown {
			k.Bytes = n
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Object, b.Object))
	})
	return out
}
