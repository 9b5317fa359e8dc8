package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// MarketViews shows spot markets, their prices, and the use of queues. A *view.Views is one.
type MarketViews interface {
	Markets(ctx context.Context, after string, limit int) (markets []apitypes.MarketView, next string, err error)
	PastPrices(ctx context.Context, offers []string) ([]record.PastPrices, error)
	Usage(ctx context.Context, last time.Duration) (apitypes.Usage, error)
	Machines(ctx context.Context, ended bool) (apitypes.MachineList, error)
	JobMachines(ctx context.Context, job string, ended bool) (apitypes.MachineList, error)
}

func (a *API) marketRoutes() {
	tags := []string{"capacity"}
	userRoute(a, huma.Operation{
		OperationID: "list-markets", Method: http.MethodGet, Path: "/v1/markets", Tags: tags,
		Summary: "List the known spot markets with price forecasts and bids",
	}, a.listMarkets)
	userRoute(a, huma.Operation{
		OperationID: "list-prices",
		Method:      http.MethodGet,
		Path:        "/v1/prices",
		Tags:        tags,
		Summary:     "Return the price history of spot markets",
		Description: "The last changes of each price, at most 96. The list is empty for a market whose price " +
			"was never " +
			"reported since the broker records prices.",
	}, a.listPrices)
	userRoute(a, huma.Operation{
		OperationID: "queue-usage", Method: http.MethodGet, Path: "/v1/usage", Tags: tags,
		Summary: "Return what the queues held in the last hours",
		Description: "Computed from the attempts of the newest 500 jobs, at most 20,000 attempts, in 120 steps. " +
			"`partial` means that there were more.",
	}, a.queueUsage)
	userRoute(a, huma.Operation{
		OperationID: "list-machines", Method: http.MethodGet, Path: "/v1/machines", Tags: tags,
		Summary:     "List the machines that were bought, with their cost and utilisation",
		Description: "The machines of the newest 500 jobs, at most 20,000. `partial` means that there are more.",
	}, a.listMachines)
}

type machinesInput struct {
	All bool   `query:"all" doc:"Also machines that have ended"`
	Job string `query:"job" maxLength:"256" doc:"Only the machines of this job"`
}

func (a *API) listMachines(ctx context.Context, in *machinesInput) (*body[apitypes.MachineList], error) {
	var list apitypes.MachineList
	var err error
	if in.Job != "" {
		list, err = a.cfg.Broker.MarketViews.JobMachines(ctx, in.Job, in.All)
	} else {
		list, err = a.cfg.Broker.MarketViews.Machines(ctx, in.All)
	}
	return &body[apitypes.MachineList]{Body: list}, err
}

type marketsInput struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"Maximum number of markets"`
	After string `query:"after" maxLength:"512" doc:"The value of next of the previous page"`
}

func (a *API) listMarkets(ctx context.Context, in *marketsInput) (*body[apitypes.MarketList], error) {
	markets, next, err := a.cfg.Broker.MarketViews.Markets(ctx, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.MarketList]{
		Body: apitypes.MarketList{Now: a.cfg.Now().UTC(), Markets: orEmpty(markets), Next: next},
	}, nil
}

// MarketName names a spot market.
type MarketName string

// Schema describes the name: printable characters without commas, which separate names.
func (MarketName) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, MaxLength: new(512), Pattern: `^[!-+\--~]+$`}
}

type pricesInput struct {
	Offers []MarketName `query:"offers" required:"true" minItems:"1" maxItems:"50" nullable:"false" doc:"The markets, comma-separated: CLOUD/REGION/ZONE/TYPE, with or without /spot"`
}

func (a *API) listPrices(ctx context.Context, in *pricesInput) (*body[apitypes.PriceList], error) {
	offers := make([]string, len(in.Offers))
	for i, o := range in.Offers {
		offers[i] = string(o)
	}
	past, err := a.cfg.Broker.MarketViews.PastPrices(ctx, offers)
	if err != nil {
		return nil, err
	}
	out := apitypes.PriceList{Now: a.cfg.Now().UTC(), Series: []apitypes.PriceSeries{}}
	for _, p := range past {
		s := apitypes.PriceSeries{Offer: p.Offer, At: []time.Time{}, USD: []float64{}}
		for _, x := range p.Points {
			s.At, s.USD = append(s.At, time.UnixMilli(x.At).UTC()), append(s.USD, x.USD)
		}
		out.Series = append(out.Series, s)
	}
	return &body[apitypes.PriceList]{Body: out}, nil
}

type usageInput struct {
	Hours float64 `query:"hours" minimum:"0.1" maximum:"744" default:"24" doc:"How far to look back"`
}

func (a *API) queueUsage(ctx context.Context, in *usageInput) (*body[apitypes.UsageView], error) {
	usage, err := a.cfg.Broker.MarketViews.Usage(ctx, time.Duration(in.Hours*float64(time.Hour)))
	if err != nil {
		return nil, err
	}
	return &body[apitypes.UsageView]{Body: apitypes.UsageView{Now: a.cfg.Now().UTC(), Usage: usage}}, nil
}
