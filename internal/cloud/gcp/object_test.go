package gcp_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
)

// finalized is the example message on Google's page "Pub/Sub notifications for Cloud Storage", as Pub/Sub pushes it.
const finalized = `{"message": {"attributes": {"notificationConfig": "projects/_/buckets/acme-jobs/notificationConfigs/1",
  "eventType": "OBJECT_FINALIZE", "payloadFormat": "JSON_API_V1", "bucketId": "acme-jobs", "objectId": "dags/a b.yaml",
  "objectGeneration": "1712345678901234", "eventTime": "2026-05-01T10:00:00.000000Z"},
  "data": "%s", "messageId": "1", "publishTime": "2026-05-01T10:00:00.100Z"}, "subscription": "projects/p/subscriptions/s"}`

const object = `{"kind": "storage#object", "id": "acme-jobs/dags/a b.yaml/1712345678901234", "name": "dags/a b.yaml", "bucket": "acme-jobs",
  "generation": "1712345678901234", "metageneration": "1", "contentType": "text/plain", "size": "812", "md5Hash": "Xt6j==", "crc32c": "AAAAAA==",
  "etag": "CL"}`

func TestObjectNotification(t *testing.T) {
	read := func(resource, event string) (push.Object, bool, error) {
		t.Helper()
		body := fmt.Sprintf(finalized, base64.StdEncoding.EncodeToString([]byte(resource)))
		m, err := gcp.DecodePush([]byte(strings.Replace(body, "OBJECT_FINALIZE", event, 1)))
		if err != nil || !m.FromBucket() {
			t.Fatal(err)
		}
		return m.Object()
	}
	want := push.Object{Bucket: "gs://acme-jobs", Key: "dags/a b.yaml", ETag: "md5:Xt6j==", Version: "1712345678901234", Size: 812}
	if o, relevant, err := read(object, "OBJECT_FINALIZE"); err != nil || !relevant || o != want {
		t.Errorf("%+v %v %v", o, relevant, err)
	}
	composed := strings.Replace(object, `"md5Hash": "Xt6j==", `, "", 1)
	if o, relevant, err := read(composed, "OBJECT_FINALIZE"); err != nil || !relevant || o.ETag != "crc32c:AAAAAA==/812" {
		t.Errorf("a composite object: %+v %v %v", o, relevant, err)
	}
	for _, event := range []string{"OBJECT_DELETE", "OBJECT_ARCHIVE", "OBJECT_METADATA_UPDATE"} {
		if _, relevant, err := read(object, event); err != nil || relevant {
			t.Errorf("%s: %v %v", event, relevant, err)
		}
	}
	for name, bad := range map[string]string{
		"no JSON": "{", "no bucket": strings.Replace(object, `"bucket": "acme-jobs",`, "", 1), "another's path": strings.Replace(object, `"bucket": "acme-jobs"`, `"bucket": "a/b"`, 1),
		"no generation": strings.Replace(object, `"generation": "1712345678901234",`, "", 1), "nothing": "",
	} {
		if _, relevant, err := read(bad, "OBJECT_FINALIZE"); relevant || !errors.Is(err, gcp.ErrNotice) {
			t.Errorf("%s: %v %v", name, relevant, err)
		}
	}
	if m, err := gcp.DecodePush([]byte(`{"message": {"data": "e30="}}`)); err != nil || m.FromBucket() {
		t.Errorf("a log entry: %+v %v", m, err)
	}
}

func FuzzPush(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(finalized, base64.StdEncoding.EncodeToString([]byte(object)))))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := gcp.DecodePush(body)
		if err != nil {
			return
		}
		if o, relevant, err := m.Object(); relevant && (err != nil || o.Key == "" || o.Version == "" || o.ETag == "") {
			t.Errorf("%+v %v", o, err)
		}
	})
}
