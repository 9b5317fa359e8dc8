package notices

import (
	"fmt"
	"strings"
	"time"
)

// Environment variables that select a watcher. Together with the cloud's own variables they contain the address of
// its metadata service.
const (
	EnvCloud = "TRADEWIND_NOTICES"  // aws (or imds), gcp, azure, kubernetes; none if empty
	EnvURL   = "TRADEWIND_METADATA" // base URL; if empty, the cloud's default
	EnvGrace = "TRADEWIND_GRACE"    // a pod's grace period: 2m0s
)

// FromEnvironment returns the watcher that the environment selects, or nil if it selects none. lookup returns the
// value of a variable. The error is ErrUnknown.
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

// MetadataURL returns the URL of a cloud's metadata service from the environment; empty if it is not set.
func MetadataURL(cloud string, lookup func(string) string) string {
	if url := lookup(EnvURL); url != "" {
		return url
	}
	switch {
	case cloud == "aws": // the variable of the AWS SDKs
		return lookup("AWS_EC2_METADATA_SERVICE_ENDPOINT")
	case cloud == "gcp" && lookup("GCE_METADATA_HOST") != "": // the variable of Google's libraries
		return "http://" + lookup("GCE_METADATA_HOST")
	}
	return ""
}
