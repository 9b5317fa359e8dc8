package running

import (
	"context"
	"net/http"
	"time"
)

// alive asks a broker for its health: a file left behind by one that was killed names a port that nobody, or somebody
// else, answers on.
func alive(r Broker) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/healthz", http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	return res.StatusCode == http.StatusOK
}
