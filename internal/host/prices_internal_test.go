package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// teller is a cloud that reports one price, or fails.
type teller struct {
	price cloudkit.Price
	err   error
}

func (p teller) SpotPrices(context.Context) ([]cloudkit.Price, error) {
	if p.err != nil {
		return nil, p.err
	}
	return []cloudkit.Price{p.price}, nil
}

// TestFailedPriceFeedIsLogged: the prices of one cloud cannot be read. The log must give the reason, and plans must
// use the current prices of the other clouds.
func TestFailedPriceFeedIsLogged(t *testing.T) {
	some, away := teller{price: cloudkit.Price{Offer: "o", USD: 1}}, teller{err: errors.New("gcp is away")}
	for name, c := range map[string]struct {
		of     []cloudkit.Prices
		prices int
		fails  bool
		logged bool
	}{
		"one of two": {[]cloudkit.Prices{away, some}, 1, false, true},
		"both":       {[]cloudkit.Prices{away, away}, 0, true, false},
		"none":       {[]cloudkit.Prices{some, some}, 2, false, false},
	} {
		var log bytes.Buffer
		got, err := sources{c.of, slog.New(slog.NewTextHandler(&log, nil))}.SpotPrices(t.Context())
		if len(got) != c.prices || (err != nil) != c.fails || strings.Contains(log.String(), "gcp is away") != c.logged {
			t.Errorf("%s fails: %d prices, error %v, logged %q", name, len(got), err, log.String())
		}
	}
}
