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
	bytes    map[way]int64
}

// way is an object's between a machine and its store.
type way struct {
	cluster, store, object string
	read                   bool
}

func newMoves(buckets map[string]string) *Moves {
	return &Moves{buckets: buckets, clusters: map[string]string{}, given: map[string]string{}, bytes: map[way]int64{}}
}

// Placed notes in which region a cluster's machines are, or in which place of another cloud, CLOUD:REGION.
func (m *Moves) Placed(cluster, region string) {
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

// Through counts what machines read and write in the store of another cloud, which next is, in one place. What nobody
// was given is the functions' own business there, which moves no data.
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

// counted counts what is read of a body.
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

// Between lists what went from one region to another, or it is not known where, by object.
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
