package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Pools lists pools with their machines.
func (c *Client) Pools(ctx context.Context) (*apitypes.PoolList, error) {
	var out apitypes.PoolList
	return &out, c.call(ctx, request{method: http.MethodGet, path: "/v1/pools"}, &out)
}

// SetPool creates a pool or changes its settings.
func (c *Client) SetPool(ctx context.Context, name string, s apitypes.PoolSettings) (*apitypes.PoolView, error) {
	var out apitypes.PoolView
	return &out, c.send(ctx, http.MethodPut, poolPath(name, ""), s, &out)
}

// RemovePool removes a pool that has no machines.
func (c *Client) RemovePool(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: poolPath(name, "")}, nil)
}

// Invite makes a token with which machines can join a pool.
func (c *Client) Invite(ctx context.Context, pool string) (*apitypes.PoolToken, error) {
	var out apitypes.PoolToken
	return &out, c.call(ctx, request{method: http.MethodPost, path: poolPath(pool, "") + "/token"}, &out)
}

// Drain drains a machine of a pool, or all of them if machine is empty, or undoes that. It returns the pool.
func (c *Client) Drain(ctx context.Context, pool, machine string, how apitypes.Drain) (*apitypes.PoolView, error) {
	var out apitypes.PoolView
	return &out, c.send(ctx, http.MethodPost, poolPath(pool, machine)+"/drain", apitypes.Draining{How: how}, &out)
}

// RemoveMachine removes a machine on which nothing runs.
func (c *Client) RemoveMachine(ctx context.Context, pool, machine string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: poolPath(pool, machine)}, nil)
}

// poolPath is the path of a pool, or of a machine of it.
func poolPath(pool, machine string) string {
	path := "/v1/pools/" + url.PathEscape(pool)
	if machine != "" {
		path += "/machines/" + url.PathEscape(machine)
	}
	return path
}

// send makes a call with a JSON body.
func (c *Client) send(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: method, path: path, body: body, contentType: "application/json"}, out)
}
