package gce

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	storage "google.golang.org/api/storage/v1"
)

// storageAgent returns the service account that publishes the project's object notifications.
func (c *Cloud) storageAgent() string {
	return "service-100000000001@gs-project-accounts.iam.gserviceaccount.com"
}

func (c *Cloud) getStorageAgent(*call) (any, *Fault) {
	return &storage.ServiceAccount{EmailAddress: c.storageAgent(), Kind: "storage#serviceAccount"}, nil
}

// KeepBuckets makes a fake-gcs-server handle the project's buckets. It publishes object notifications to PubSub.
func (c *Cloud) KeepBuckets(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storage = server
}

// askStorage forwards requests for buckets and notifications to fake-gcs-server. A bucket may publish only on an
// existing topic on which its agent may publish (Cloud Storage documentation, "Configure Pub/Sub notifications").
func (c *Cloud) askStorage(r *call) (json.RawMessage, *Fault, error) {
	c.mu.Lock()
	server := c.storage
	c.mu.Unlock()
	if server == "" {
		return nil, &Fault{Code: http.StatusNotImplemented, Reason: "notImplemented", Message: r.method.ID}, nil
	}
	if r.method.ID == "storage.notifications.insert" {
		var in storage.Notification
		if err := json.Unmarshal(r.body, &in); err != nil {
			return nil, invalid("%v", err), nil
		}
		topic, ok := strings.CutPrefix(in.Topic, "//pubsub.googleapis.com/")
		if !ok || in.PayloadFormat == "" {
			return nil, invalid("Invalid value for topic or payload_format"), nil
		}
		if !c.HasRole(topic, "roles/pubsub.publisher", "serviceAccount:"+c.storageAgent(), false) {
			return nil, &Fault{Code: http.StatusForbidden, Reason: "forbidden", Message: "The service account '" +
				c.storageAgent() + "' does not have permission to publish messages to the topic '" + topic +
				"', or that topic does not exist."}, nil
		}
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method,
		server+r.URL.Path, bytes.NewReader(r.body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // the configured server
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return nil, nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, notFound("%s", r.URL.Path), nil
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, invalid("%.200s", text), nil
	case r.Method == http.MethodDelete:
		return nil, nil, nil
	}
	return text, nil, nil
}

// bucketPolicy handles a bucket's policy. In the bucket API, the request is the policy itself.
func (c *Cloud) bucketPolicy(r *call) (any, *Fault) {
	name := "buckets/" + r.arg(0)
	if r.Method == http.MethodPut {
		var in crm.Policy
		if err := json.Unmarshal(r.body, &in); err != nil {
			return nil, invalid("%v", err)
		}
		if f := c.replace(name, &in); f != nil {
			return nil, f
		}
	}
	version := r.URL.Query().Get("optionsRequestedPolicyVersion") == "3"
	return c.shown(name, version), nil
}
