package remote_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/agent/bucket/remote"
)

func TestEveryCloudsBucketsCanBeOpened(t *testing.T) {
	open := remote.Openers()
	for _, scheme := range []string{"file", "s3", "gs", "azblob"} {
		if open[scheme] == nil {
			t.Errorf("no opener for %s://", scheme)
		}
	}
	b, key, err := open.Object(t.Context(), "s3://public-data/a/b.csv?region=us-east-1&anonymous=true") // nothing is called yet
	if err != nil || key != "a/b.csv" {
		t.Fatalf("%q, %v", key, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
