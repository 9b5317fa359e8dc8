package running

import (
	"context"
	"net/http"
	"time"
)

// alive checks a broker's health: the file of a broker that was killed names a port on which nothing, or another
// program, listens.
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
	defer res.Body.Close() //nolint:errcheck // read only
	return res.StatusCode == http.StatusOK
}
