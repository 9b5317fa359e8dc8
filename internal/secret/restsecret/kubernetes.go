package restsecret

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/secret"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// ForJobs is the label of a Secret that a broker in the cluster may give to jobs. Such a broker can also read its own
// secrets and those of its machines, which jobs must not get.
const ForJobs = "tradewind.dev/for-jobs"

var kubernetesName = lazyregexp.New(
	`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9._-]{1,253}$`)

// Kubernetes fetches Secrets of a cluster, each by one of its keys.
type Kubernetes struct {
	// Cluster returns the address of the API server, an authenticated client, and whether only Secrets with the label
	// ForJobs: "true" may be fetched.
	Cluster func(context.Context) (endpoint string, client *http.Client, labelled bool, err error)
}

// Fetch implements secret.Source (core/v1 Secret).
func (k Kubernetes) Fetch(ctx context.Context, name string) (string, error) {
	if !kubernetesName.MatchString(name) {
		return "", malformed("kubernetes:NAMESPACE/NAME/KEY")
	}
	part := strings.Split(name, "/")
	namespace, object, key := part[0], part[1], part[2]
	endpoint, client, labelled, err := k.Cluster(ctx)
	if err != nil {
		return "", err
	}
	var kept struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Data map[string][]byte `json:"data"` // in base64
	}
	same := func(context.Context) (*http.Client, error) { return client, nil }
	if err := get(ctx, same, endpoint+"/api/v1/namespaces/"+namespace+"/secrets/"+object, &kept); err != nil {
		return "", err
	}
	if labelled && kept.Metadata.Labels[ForJobs] != "true" {
		return "", fmt.Errorf("%w: a broker in the cluster gives jobs only Secrets with a label: "+
			"kubectl label secret -n %s %s %s=true", secret.ErrUnavailable, namespace, object, ForJobs)
	}
	value, ok := kept.Data[key]
	if !ok {
		return "", fmt.Errorf("%w: it has no key %q, only %s", secret.ErrUnavailable, key,
			strings.Join(slices.Sorted(maps.Keys(kept.Data)), ", "))
	}
	return string(value), nil
}
