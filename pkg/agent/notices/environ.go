package notices

import (
	"fmt"
	"strings"
	"time"
)

// The environment that names a watcher and, beside the cloud's own variables, where its metadata service is.
const (
	EnvCloud = "TRADEWIND_NOTICES"  // aws (or imds), gcp, azure, kubernetes; none when empty
	EnvURL   = "TRADEWIND_METADATA" // base URL; the cloud's own when empty
	EnvGrace = "TRADEWIND_GRACE"    // a pod's grace period: 2m0s
)

// FromEnvironment returns the watcher that the environment names, nil when it names none. lookup returns the value of a
// variable. It fails with ErrUnknown.
func FromEnvironment(lookup func(string) string, c Config) (Watcher, error) {
	cloud := lookup(EnvCloud)
	if cloud == "" {
		return nil, nil
	}
	if cloud == "imds" {
		cloud = "aws"
	}
	c.URL = MetadataURL(cloud, lookup)
	if grace := lookup(EnvGrace); grace != "" {
		d, err := time.ParseDuration(grace)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%w: %s=%q", ErrUnknown, EnvGrace, grace)
		}
		c.Grace = d
	}
	w, err := New(cloud, c)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", EnvCloud, strings.ToValidUTF8(cloud, ""), err)
	}
	return w, nil
}

// MetadataURL is where the environment says that a cloud's metadata service is, empty where it does not say.
func MetadataURL(cloud string, lookup func(string) string) string {
	if url := lookup(EnvURL); url != "" {
		return url
	}
	switch {
	case cloud == "aws": // as the AWS SDKs
		return lookup("AWS_EC2_METADATA_SERVICE_ENDPOINT")
	case cloud == "gcp" && lookup("GCE_METADATA_HOST") != "": // as Google's libraries
		return "http://" + lookup("GCE_METADATA_HOST")
	}
	return ""
}
