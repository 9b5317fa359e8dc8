package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// marketsPage is the page size for markets.
const marketsPage = 1000

// Markets lists the known spot markets by name, with price forecasts and bids. It reads all pages.
func (c *Client) Markets(ctx context.Context) (*apitypes.MarketList, error) {
	out := apitypes.MarketList{Markets: []apitypes.MarketView{}}
	for after := ""; ; {
		var page apitypes.MarketList
		q := url.Values{"limit": {strconv.Itoa(marketsPage)}}
		if after != "" {
			q.Set("after", after)
		}
		if err := c.call(ctx, request{method: http.MethodGet, path: "/v1/markets", query: q}, &page); err != nil {
			return nil, err
		}
		out.Now, out.Markets = page.Now, append(out.Markets, page.Markets...)
		if after = page.Next; after == "" {
			return &out, nil
		}
	}
}

// Prices returns the price history of up to 50 spot markets: CLOUD/REGION/ZONE/TYPE, with or without /spot.
func (c *Client) Prices(ctx context.Context, offers ...string) (*apitypes.PriceList, error) {
	var out apitypes.PriceList
	q := url.Values{"offers": {strings.Join(offers, ",")}}
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/prices", query: q}, &out)
}

// Machines returns the machines that were bought for the newest jobs. With ended, it also returns those that have
// ended.
func (c *Client) Machines(ctx context.Context, ended bool) (*apitypes.MachineList, error) {
	var out apitypes.MachineList
	q := url.Values{}
	if ended {
		q.Set("all", "true")
	}
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/machines", query: q}, &out)
}

// Usage returns the use of the queues in the given period up to now, at most 744 hours.
func (c *Client) Usage(ctx context.Context, last time.Duration) (*apitypes.UsageView, error) {
	var out apitypes.UsageView
	q := url.Values{"hours": {strconv.FormatFloat(last.Hours(), 'f', -1, 64)}}
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/usage", query: q}, &out)
}

// Rerun submits a job again, as a new one. Calls with the same key return the same new job. If the job has secrets
// whose values were submitted with it, it cannot be rerun: the call fails with 422.
func (c *Client) Rerun(ctx context.Context, id, key string) (*apitypes.Submitted, error) {
	return c.rerun(ctx, id, key, nil)
}

// RerunFailed is Rerun for a finished job, but runs only the tasks that failed or never ran. The new job reads the
// outputs of the other tasks. RerunFailed fails with 409 if the job has not finished, or if no task failed.
func (c *Client) RerunFailed(ctx context.Context, id, key string) (*apitypes.Submitted, error) {
	return c.rerun(ctx, id, key, url.Values{"failed": {"true"}})
}

func (c *Client) rerun(ctx context.Context, id, key string, query url.Values) (*apitypes.Submitted, error) {
	var out apitypes.Submitted
	return &out, c.call(
		ctx,
		request{method: http.MethodPost, path: jobPath(id) + "/rerun", key: keyOrRandom(key), query: query},
		&out,
	)
}
