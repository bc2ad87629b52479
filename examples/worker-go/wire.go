// The wire of searchbus for a worker that offers tools; § refers to proto/README.md.
package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Fault is a failure that the caller receives (§6): what happened, and what to do.
type Fault struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

func (f Fault) Error() string { return f.Message }

var stopped = Fault{"unavailable", "The worker stopped during the call.", true}
type object = map[string]any

// Run does the work of a tool. Each report of its progress is larger than the one before (§5.3).
type Run func(ctx context.Context, arguments json.RawMessage, progress func(done, total int, message string)) (any, error)

type worker struct {
	*nats.Conn
	life    context.Context
	edgeKey ed25519.PublicKey // empty on an open bus
	tool    object            // ToolDescriptor (proto/schema/ToolDescriptor.json)
	run     Run
	slots   chan struct{} // one for each request that runs
	running sync.Map      // *nats.Msg → context.CancelCauseFunc
}

// setting is a variable, or the file of that name in the folder of secrets; else `missing`.
func setting(name, missing string) string {
	text, _ := os.ReadFile(os.Getenv("SEARCHBUS_SECRETS_DIR") + "/" + name) // There may be none.
	return cmp.Or(os.Getenv(name), strings.TrimSpace(string(text)), missing)
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// Serve connects, and serves a tool until SIGTERM or SIGINT (§13).
func Serve(service, version string, tool object, run Run) {
	options := []nats.Option{nats.Name(service), nats.MaxReconnects(-1), nats.PingInterval(3 * time.Second), nats.MaxPingsOutstanding(1)} // §1.2
	if folder := os.Getenv("SEARCHBUS_SECRETS_DIR"); folder != "" {
		options = append(options, must(nats.NkeyOptionFromSeed(folder+"/SEARCHBUS_NATS_NKEY_SEED")))
		if _, err := os.Stat(folder + "/ca.crt"); err == nil { // Of `searchbus nats-config --tls`.
			options = append(options, nats.RootCAs(folder+"/ca.crt"), nats.ClientCert(folder+"/client.crt", folder+"/client.key"))
		}
	}
	nc := must(nats.Connect(setting("SEARCHBUS_NATS_URL", nats.DefaultURL), options...))
	life, end := context.WithCancelCause(context.Background())
	edgeKey := must(base64.RawURLEncoding.DecodeString(setting("SEARCHBUS_ACTOR_PUBLIC_KEY", "")))
	w := &worker{Conn: nc, life: life, edgeKey: edgeKey, tool: tool, run: run, slots: make(chan struct{}, 64)}
	catalog := must(json.Marshal(object{"service": service, "tools": []object{tool}}))
	id := hash(catalog)[:32] // §8.2
	work := []*nats.Subscription{
		must(nc.QueueSubscribe(fmt.Sprintf("sb.v1.tool.%s.*", tool["toolset"]), service, func(m *nats.Msg) { w.receive(m, w.call) })),
		must(nc.QueueSubscribe("sb.v1.catalog."+service+"."+id, service, func(m *nats.Msg) {
			w.receive(m, func(context.Context, *nats.Msg) (any, error) { return json.RawMessage(catalog), nil })
		})),
	}
	metadata := map[string]string{"searchbus": "v1", "catalog": id, "started_ms": fmt.Sprint(time.Now().UnixMilli())}
	discovery := must(micro.AddService(nc, micro.Config{Name: service, Version: version, Metadata: metadata})) // §8.1
	instance := discovery.Info().ID
	must(nc.Subscribe("sb.v1.ctl.cancel."+service, w.cancel))
	must(nc.Subscribe("sb.v1.ctl.ping."+service+"."+instance, func(m *nats.Msg) {
		if strings.HasPrefix(m.Reply, "_INBOX") {
			w.send(m.Reply, object{"instance": instance, "in_flight": len(w.slots)}, nil)
		}
	}))
	must(0, nc.Flush())              // The subscriptions exist before the worker is announced.
	announce := func(event string) { // §8.4
		w.send("sb.v1.evt.catalog."+service, object{"event": event, "service": service, "instance": instance, "catalog": id, "metadata": metadata}, nil)
	}
	announce("up")
	log.Printf("%s is on the bus as %s", service, instance)
	leave, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	<-leave.Done()
	announce("down") // §5.7
	must(0, discovery.Stop())
	for _, subscription := range work { // Each ends once its last message was handed over.
		for must(0, subscription.Drain()); subscription.IsValid(); time.Sleep(10 * time.Millisecond) {
		}
	}
	time.AfterFunc(10*time.Second, func() { end(stopped) })
	for range cap(w.slots) { // All slots are free once the last request has ended.
		w.slots <- struct{}{}
	}
	for must(0, nc.Drain()); !nc.IsClosed(); time.Sleep(10 * time.Millisecond) {
	}
}

// receive handles one request: limit, deadline, the work, and exactly one reply or failure (§5.1).
func (w *worker) receive(m *nats.Msg, work func(context.Context, *nats.Msg) (any, error)) {
	if !strings.HasPrefix(m.Reply, "_INBOX") {
		return
	}
	select {
	case w.slots <- struct{}{}:
	default:
		w.fail(m, Fault{"overloaded", "The worker is at its limit. Try again.", true}) // §5.6
		return
	}
	budget := 30 * time.Second // §4.1
	if ms, err := strconv.ParseUint(m.Header.Get("Timeout-Ms"), 10, 42); err == nil {
		budget = time.Duration(ms) * time.Millisecond
	}
	if ms, err := strconv.ParseUint(m.Header.Get("Deadline-Ms"), 10, 42); err == nil {
		budget = min(budget, time.Until(time.UnixMilli(int64(ms))))
	}
	ctx, cancel := context.WithCancelCause(w.life)
	w.running.Store(m, cancel)
	go func() {
		defer func() { w.running.Delete(m); cancel(nil); <-w.slots }()
		ctx, stop := context.WithTimeoutCause(ctx, budget, Fault{"deadline_exceeded", "The tool was too slow. Ask for less.", true})
		defer stop()
		reply, err := any(nil), context.Cause(ctx)
		if err == nil {
			reply, err = work(ctx, m)
		}
		if err == nil {
			err = w.reply(ctx, m, must(json.Marshal(reply)))
		}
		if err != nil {
			w.fail(m, err)
		}
	}()
}

func (w *worker) call(ctx context.Context, m *nats.Msg) (any, error) {
	var asked struct{ Tool, Arguments json.RawMessage }
	roles, err := w.roles(m)
	damaged := json.Unmarshal(m.Data, &asked)
	name := strings.Trim(string(asked.Tool), `"`)
	required, _ := w.tool["required_roles"].([]string)
	switch {
	case m.Header.Get("Parts") != "": // §5.2: no tool here takes so much
		return nil, Fault{Code: "invalid_argument", Message: "The arguments are larger than 500 KB. Send less."}
	case err != nil:
		return nil, err
	case damaged != nil:
		return nil, Fault{Code: "invalid_argument", Message: "The body must be a ToolCall."}
	case name != w.tool["name"] || !strings.HasSuffix(m.Subject, "."+name): // §7.2
		return nil, Fault{Code: "not_found", Message: "This worker has no tool of that name. List the tools again."}
	case !slices.Contains(roles, "*") && slices.ContainsFunc(required, func(role string) bool {
		return !slices.Contains(roles, strings.TrimPrefix(role, "ROLE_"))
	}): // §4.2
		return nil, Fault{Code: "forbidden", Message: "The caller lacks a role."}
	}
	return w.run(ctx, asked.Arguments, func(done, total int, message string) {
		w.send(m.Reply, object{"kind": "progress", "progress": done, "total": total, "message": message}, nats.Header{"Event": {"progress"}})
	})
}

// roles of the caller, without "ROLE_". Refused where no edge signed them for this very request (§4.4).
func (w *worker) roles(m *nats.Msg) ([]string, error) {
	text := m.Header.Get("Actor")
	if text != "" && len(w.edgeKey) > 0 {
		parts := append(strings.Split(m.Header.Get("Actor-Sig"), "."), "", "")
		signed := []string{"searchbus/actor/2", parts[0], parts[1], m.Subject, m.Header.Get("Req-Id"), hash(m.Data), text}
		signature, _ := base64.RawURLEncoding.DecodeString(parts[2]) // What cannot be decoded is not valid.
		end, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil || time.Now().UnixMilli() > end || !ed25519.Verify(w.edgeKey, []byte(strings.Join(signed, "\n")), signature) {
			return nil, Fault{"forbidden", "No edge of this bus signed the caller of this request.", false}
		}
	}
	var actor struct{ Roles []string }
	err := json.Unmarshal([]byte(strings.ReplaceAll(cmp.Or(text, "{}"), `"ROLE_`, `"`)), &actor)
	return actor.Roles, err
}

// reply sends a reply; a large one in parts, as many as its receiver allows (§5.2).
func (w *worker) reply(ctx context.Context, m *nats.Msg, body []byte) error {
	size := int(min(524288, w.MaxPayload()-8192))
	if len(body) <= size {
		return w.Publish(m.Reply, body)
	}
	own := setting("SEARCHBUS_NATS_INBOX_PREFIX", "_INBOX") + ".x.$PART" + nats.NewInbox()[6:] // As the server's permissions have it (§5.1).
	credits, err := w.SubscribeSync(own)
	defer credits.Unsubscribe()                                           // of none, where it failed
	count, sum, allowed := (len(body)+size-1)/size, hash(body), len(body) // all parts, where it does not count them
	if err == nil && m.Header.Get("Credit") != "" {
		allowed = 0
		err = w.PublishMsg(&nats.Msg{Subject: m.Reply, Reply: own, Header: nats.Header{"Size": {strconv.Itoa(len(body))}}})
	}
	for index := 0; index < count && err == nil; index++ {
		for allowed <= index {
			credit, err := credits.NextMsgWithContext(ctx)
			if err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
			if allowed, _ = strconv.Atoi(string(credit.Data)); allowed <= 0 {
				return nil // The receiver wants no more, or is gone.
			}
		}
		mark := nats.Header{"Chunk": {fmt.Sprintf("%d/%d %d %s", index, count, len(body), sum)}}
		err = w.PublishMsg(&nats.Msg{Subject: m.Reply, Header: mark, Data: body[index*size : min((index+1)*size, len(body))]})
	}
	return err
}

// fail sends a failure (§6). Of an unexpected error the caller receives no text.
func (w *worker) fail(m *nats.Msg, err error) {
	fault, known := err.(Fault)
	if !known {
		log.Print(err)
		fault = Fault{Code: "internal", Message: "The tool failed. Report it to the operator of the worker."}
	}
	header := nats.Header{"Nats-Service-Error-Code": {fault.Code}, "Nats-Service-Error": {fault.Message}}
	if fault == stopped { // §5.7
		header["Started"] = []string{"1"}
	}
	w.send(m.Reply, fault, header)
}

// cancel stops the request that its caller no longer needs (§5.4).
func (w *worker) cancel(m *nats.Msg) {
	var wanted struct{ Req_id string }
	err := json.Unmarshal(m.Data, &wanted)
	for request, end := range w.running.Range {
		if err == nil && request.(*nats.Msg).Header.Get("Req-Id") == wanted.Req_id {
			end.(context.CancelCauseFunc)(Fault{"cancelled", "The caller cancelled.", false})
		}
	}
}

func (w *worker) send(subject string, body any, header nats.Header) {
	if err := w.PublishMsg(&nats.Msg{Subject: subject, Data: must(json.Marshal(body)), Header: header}); err != nil {
		log.Printf("a message to %s was not sent: %v", subject, err)
	}
}
