package clouds

import (
	"context"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// pages is a store that lists one object a page.
type pages struct {
	grant.Store
	uris []string
}

func (p pages) List(_ context.Context, _, after string) (page grant.Page, err error) {
	for i, uri := range p.uris {
		if after != "" && uri <= after {
			continue
		}
		page.Objects = []grant.Listed{{URI: uri}}
		if i < len(p.uris)-1 {
			page.Next = uri
		}
		break
	}
	return page, nil
}

func TestOutputsOnLaterPageKeepTheBucket(t *testing.T) {
	own := []string{"s3://b/agent/1/program", "s3://b/mail/d/in/box/0/1"}
	for _, c := range []struct {
		uris []string
		want bool
	}{{nil, false}, {own, false}, {append(own, "s3://b/train/model"), true}} {
		got, err := hasOutputs(t.Context(), pages{uris: c.uris}, "s3://b")
		if err != nil || got != c.want {
			t.Errorf("%v has outputs: %t, %v", c.uris, got, err)
		}
	}
}
