package activity_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
)

// limited is an account whose Lambda API accepts 15 requests in each period. A period simulates one second. A change
// of a mapping takes three periods, and the mapping refuses other changes until then.
type limited struct {
	period time.Duration

	mu      sync.Mutex
	began   time.Time
	used    int
	lists   int
	updates int
	account *account
	changed map[string]time.Time
}

const perPeriod = 15

func (l *limited) admit() error {
	if now := time.Now(); now.Sub(l.began) >= l.period {
		l.began, l.used = now, 0
	}
	if l.used++; l.used > perPeriod {
		return &lambdatypes.TooManyRequestsException{Message: aws.String("Rate exceeded")}
	}
	return nil
}

func (l *limited) ListEventSourceMappings(ctx context.Context, in *lambda.ListEventSourceMappingsInput,
	o ...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(); err != nil {
		return nil, err
	}
	l.lists++
	for name, state := range l.account.mappings {
		if time.Since(l.changed[name]) > 3*l.period {
			l.account.mappings[name] = strings.TrimSuffix(state, "ing") + map[bool]string{true: "ed"}[strings.HasSuffix(state, "ing")]
		}
	}
	out, err := l.account.ListEventSourceMappings(ctx, in, o...)
	if name := aws.ToString(in.FunctionName); name != "" {
		kept := out.EventSourceMappings[:0]
		for _, m := range out.EventSourceMappings {
			if *m.UUID == name {
				kept = append(kept, m)
			}
		}
		out.EventSourceMappings = kept
	}
	return out, err
}

func (l *limited) UpdateEventSourceMapping(ctx context.Context, in *lambda.UpdateEventSourceMappingInput,
	o ...func(*lambda.Options)) (*lambda.UpdateEventSourceMappingOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(); err != nil {
		return nil, err
	}
	if strings.HasSuffix(l.account.mappings[*in.UUID], "ing") {
		return nil, &lambdatypes.ResourceConflictException{Message: aws.String("another operation is in progress")}
	}
	l.updates++
	l.changed[*in.UUID] = time.Now()
	return l.account.UpdateEventSourceMapping(ctx, in, o...)
}

// Sources: AWS Lambda developer guide, "Lambda quotas", API requests: 15 requests a second over all of the control
// plane's APIs, which cannot be raised; botocore, lambda 2015-03-31: TooManyRequestsException (429) and
// ResourceConflictException (409). Fifty job files that arrive at once run submit fifty times, ten at a time, and none
// may fail: a failed one would become a dead letter.
func TestFiftyFilesAtOnceWakeThrottledDeployment(t *testing.T) {
	const period = 20 * time.Millisecond
	l := &limited{period: period, account: &account{mappings: map[string]string{}}, changed: map[string]time.Time{}}
	var functions []string
	for i := range 12 {
		name := fmt.Sprintf("tw-%d", i)
		functions, l.account.mappings[name] = append(functions, name), "Disabled"
	}
	l.account.mappings["others"] = "Disabled"
	slots := make(chan struct{}, 10)
	errs := make(chan error, 50)
	for range 50 {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs <- (&activity.AWS{Scheduler: l.account, Lambda: l, Group: "tw", Functions: functions, Look: period}).On(t.Context())
		}()
	}
	for range 50 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for name, state := range l.account.mappings {
		if strings.HasPrefix(state, "Enabl") == (name == "others") {
			t.Errorf("%s is %s", name, state)
		}
	}
	if l.updates != len(functions) || l.lists > 50+20*perPeriod {
		t.Errorf("%d updates, %d lists", l.updates, l.lists)
	}
}
