package kubetest

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/kubeapi"
)

// API returns a client of the cluster's API with administrator rights, for objects as JSON.
func (c *Cluster) API(t testing.TB) *kubeapi.API {
	t.Helper()
	api, err := kubeapi.New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}
