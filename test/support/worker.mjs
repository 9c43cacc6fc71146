// Stands in for a worker process of a supervisor: a process that says what a worker process would, without a service behind it.
// Its arguments: its slot, how it behaves, and how many requests it says it has had.

const [, how = 'serves', requests = '0'] = process.argv.slice(2)

const say = (report, then = () => {}) => process.send(report, undefined, undefined, then)

const page = () => ({
  kind: 'page',
  text: [
    '# HELP requests_total Requests.\n# TYPE requests_total counter',
    `requests_total ${requests}`,
    '# HELP ring_bytes Bytes.\n# TYPE ring_bytes gauge\nring_bytes 1\n',
  ].join('\n'),
})

process.on('disconnect', () => process.exit(0))
process.on('SIGTERM', () => {
  if (how === 'drains badly') process.exit(3)
  if (how !== 'never drains') say(page(), () => process.exit(0))
})
process.on('message', ({ ask }) => {
  if (ask === 'page') say(page())
  else say({ kind: 'health', ready: true, parts: [{ part: 'queue', kind: 'jetstream', state: 'ok', reason: null }] })
})

if (how === 'refuses') say({ kind: 'refused', why: 'cannot listen on 10.0.0.1:80' }, () => process.exit(1))
else if (how === 'crashes') process.exit(7)
else if (how === 'hangs') setInterval(() => {}, 1000)
else say({ kind: 'serving' })
