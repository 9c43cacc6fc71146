#!/usr/bin/env node
// Stands for kubectl and a cluster behind it, for what deploy/spool.sh and deploy/password.sh ask: workloads whose pods get ready one a
// call where there is room, jobs that end, claims that a pod holds, Secrets whose files come to servers of NATS some calls later. The
// state is the file CLUSTER; what was done, and how many pods were ready then, is
// written into it.

import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'

const file = process.env['CLUSTER'] ?? ''
const cluster = JSON.parse(readFileSync(file, 'utf8'))
const args = process.argv.slice(2).filter((word, at, all) => word !== '--namespace' && all[at - 1] !== '--namespace')
const [verb, ...words] = args
const option = (name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined)
const workloads = Object.values(cluster.workloads)
const ready = () => workloads.reduce((sum, each) => sum + each.ready, 0)

// An API server that does not answer now and then.
cluster.asked = (cluster.asked ?? 0) + 1
if (verb === 'get' && cluster.failing?.includes(cluster.asked)) {
  writeFileSync(file, JSON.stringify(cluster, null, 1))
  process.stderr.write('Unable to connect to the server: EOF\n')
  process.exit(1)
}

/** One step of what controllers and machines do. */
function goOn() {
  for (const each of workloads) if (each.ready > each.replicas) each.ready = each.replicas
  cluster.least = Math.min(cluster.least, ready())
  for (const each of workloads) if (each.ready < each.replicas && ready() < cluster.room) each.ready++
  for (const server of Object.values(cluster.servers ?? {}))
    if (server.behind-- <= 0) server.files = { ...cluster.secrets['nats-passwords'] }
  for (const job of Object.values(cluster.jobs)) if (job.state === 'active' && --job.steps <= 0) job.state = job.ends
}

const did = (what) => cluster.log.push({ what, ready: ready() })
const end = (text = '') => {
  goOn()
  writeFileSync(file, JSON.stringify(cluster, null, 1))
  process.stdout.write(text)
}
const fail = (text) => {
  end()
  process.stderr.write(`Error: ${text}\n`)
  process.exit(1)
}
/** `job/drain-3`, or `job drain-3`. */
const named = () => (words[0].includes('/') ? words[0].split('/') : [words[0], words[1]])

function find(kind, name) {
  if (kind === 'job') return cluster.jobs[name]
  if (kind === 'persistentvolumeclaim') return cluster.claims.includes(name) ? {} : undefined
  if (kind === 'pod') return cluster.pods.includes(name) ? {} : undefined
  if (kind === 'cronjob' || kind === 'networkpolicy') return cluster.others.includes(`${kind}/${name}`) ? {} : undefined
  return cluster.workloads[`${kind}/${name}`]
}

function get() {
  const output = option('--output') ?? ''
  if (words[0] === 'pods' && cluster.servers !== undefined) return end(Object.keys(cluster.servers).join('\n'))
  if (words[0] === 'statefulset/nats') return end('3')
  // Several by their names: those that there are.
  if (words[1]?.includes('/')) return end(Object.keys(cluster.workloads).join('\n'))
  if (words[0] === 'secret') {
    if (output.includes('.metadata.annotations.')) return end(cluster.moving ?? '')
    const key = /^jsonpath=\{\.data\.(.*)\}$/.exec(output)[1].replaceAll('\\.', '.')
    return end(Buffer.from(cluster.secrets[words[1]][key] ?? '').toString('base64'))
  }
  if (words[0] === 'pods')
    return end(workloads.some((each) => each.ready < each.replicas) && ready() >= cluster.room ? cluster.waitsFor : '')
  if (words[0] === 'persistentvolumeclaims') return end(cluster.claims.map((claim) => `${claim}\n`).join(''))
  const [kind, name] = named()
  const found = find(kind, name)
  if (found === undefined) return args.includes('--ignore-not-found') ? end() : fail(`${kind} "${name}" not found`)
  if (output === 'name') return end(`${kind}/${name}\n`)
  if (kind === 'job')
    return end(found.state === 'complete' ? 'Complete\n' : found.state === 'failed' ? 'FailureTarget\nFailed\n' : '')
  // A member that is 0 is missing.
  return end(`${(output.includes('readyReplicas') ? found.ready : found.replicas) || ''}`)
}

function remove() {
  const [first, second] = words
  if (first === 'configmap') {
    cluster.others = cluster.others.filter((other) => other !== second)
    return end()
  }
  const targets = first.includes('/') ? words.filter((word) => word.includes('/')) : [`${first}/${second}`]
  for (const target of targets) {
    const [kind, name] = target.split('/')
    if (find(kind, name) === undefined && !args.includes('--ignore-not-found')) return fail(`${target} not found`)
    if (find(kind, name) === undefined) continue
    if (kind === 'persistentvolumeclaim' && cluster.jobs[`drain-${name.split('-').at(-1)}`] !== undefined)
      return fail('timed out waiting for the condition: a pod of the job uses the claim')
    did(`delete ${target}`)
    if (kind === 'job') delete cluster.jobs[name]
    else if (kind === 'persistentvolumeclaim') cluster.claims = cluster.claims.filter((claim) => claim !== name)
    else if (kind === 'statefulset' || kind === 'deployment') {
      delete cluster.workloads[target]
      if (kind === 'statefulset') cluster.pods = []
    } else cluster.others = cluster.others.filter((other) => other !== target)
  }
  end()
}

function create() {
  if (words[0] === 'configmap') {
    if (cluster.others.includes(words[1])) return fail(`configmaps "${words[1]}" already exists`)
    cluster.others.push(words[1])
    return end()
  }
  // Changes nothing, and writes nothing: the other end of the pipe reads and writes the state meanwhile.
  if (args.includes('--dry-run=client')) {
    process.stdout.write(JSON.stringify({ name: words[1], claim: 'spool-sluice-0' }))
    return
  }
  const { name, claim } = JSON.parse(readFileSync(0, 'utf8'))
  if (cluster.jobs[name] !== undefined) return fail(`jobs "${name}" already exists`)
  cluster.jobs[name] = { claim, state: 'active', steps: 3, ends: cluster.jobsEnd }
  did(`create job ${name} ${claim}`)
  end()
}

function patch() {
  const [, name] = words
  const { stringData } = JSON.parse(readFileSync(option('--patch-file'), 'utf8'))
  Object.assign(cluster.secrets[name], stringData)
  did(`patch ${name} ${Object.keys(stringData).join()}`)
  for (const server of Object.values(cluster.servers)) server.behind = cluster.calls ?? 1
  end()
}

/** What runs in a server of NATS. */
function execute() {
  const server = cluster.servers[words[0]]
  const [program, ...given] = args.slice(args.indexOf('--') + 1)
  if (program === 'sha256sum') {
    const text = server.files[given[0].split('/').at(-1)] ?? ''
    return end(`${createHash('sha256').update(text).digest('hex')}  ${given[0]}\n`)
  }
  server.loaded = { ...server.files }
  server.reloads = (server.reloads ?? 0) + 1
  did(`reload ${words[0]}`)
  end()
}

if (verb === 'get') get()
else if (verb === 'patch') patch()
else if (verb === 'exec') execute()
else if (verb === 'annotate') {
  const [name, value] = args.find((word) => /^[\w-]+(=\w+|-)$/.test(word) && word.startsWith('sluice-')).split('=')
  cluster.moving = value ?? ''
  did(`annotate ${name}${value === undefined ? '' : `=${value}`}`)
  end()
} else if (verb === 'rollout') {
  did(args.slice(0, 3).join(' '))
  end()
} else if (verb === 'logs' && cluster.servers !== undefined) {
  const text = cluster.reload === 'fails' ? '[ERR] Failed to reload' : '[INF] Reloaded'
  const { reloads = 0 } = cluster.servers[words[0]]
  const lines = Array.from({ length: reloads }, (_, at) => `[1] ${at} ${text} server configuration\n`)
  // What a server says of its routes.
  for (let at = 0; at < (cluster.chatter ?? 0); at++) lines.push('[1] Router connection closed: Duplicate Route\n')
  end(lines.slice(-Number(option('--tail') ?? lines.length)).join(''))
} else if (verb === 'delete') remove()
else if (verb === 'create') create()
else if (verb === 'logs') end('the spool is empty\n')
else if (verb === 'kustomize') end(existsSync(words[0]) ? readFileSync(`${words[0]}/built.yaml`, 'utf8') : '')
else if (verb === 'apply') {
  const kind = readFileSync(`${option('-k')}/built.yaml`, 'utf8').includes('StatefulSet') ? 'statefulset' : 'deployment'
  cluster.workloads[`${kind}/sluice`] ??= { replicas: 1, ready: 0 }
  did('apply')
  end()
} else if (verb === 'scale') {
  cluster.workloads[words[0]].replicas = Number(option('--replicas'))
  did(`scale ${words[0]} ${option('--replicas')}`)
  end()
} else fail(`kubectl ${verb} is not part of this`)
