// The local overlay's settings and configurations where there is IPv6 and nothing else: a node is ready, takes a batch and has it stored.

import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { single } from '../support/client.ts'
import { configurationOf, environmentOf, servicesOf, workload } from '../support/kubernetes-view.ts'
import { buildKustomization } from '../support/kustomize.ts'
import { natsConfiguration, replaceEach } from '../support/manifest-nats.ts'
import { NATS_SERVER } from '../support/nats.ts'
import { makeFolder } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const MAIN = join(ROOT, 'dist/main.js')

/** As in a pod of a cluster of IPv6 alone: IPv4 is there as 127.0.0.1 only, and all names lead to an address of IPv6. */
const SCRIPT = `
set -euo pipefail
ip link set lo up
ip address add fd00:6::1/128 dev lo
mount --bind "$FOLDER/hosts" /etc/hosts
redis-server "$FOLDER/redis.conf" > /dev/null &
"$NATS_SERVER" --config "$FOLDER/nats.conf" 2> /dev/null &
"$NODE" "$MAIN" serve > "$FOLDER/log" 2>&1 &
until curl -m 5 -sf http://sluice:9090/readyz > /dev/null; do kill -0 $! || { cat "$FOLDER/log" >&2; exit 1; }; sleep 0.2; done
"$NODE" "$MAIN" apps add --app-id six --app-key ak_six --plan 5m --subscription active > /dev/null
until curl -m 5 -s -w '%{http_code}\\n' -o "$FOLDER/answer" http://sluice:8080/api/v1/events -H 'Content-Type: application/json' \\
  --data "@$FOLDER/batch.json" | grep -v 401; do sleep 0.2; done
"$NODE" "$MAIN" tail --from-start --no-follow --records | wc -l
curl -m 5 -s 'http://sluice:9090/readyz?verbose'
`

it('serves over IPv6 alone', async ({ skip }) => {
  try {
    execFileSync('unshare', ['-nm', 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'ignore' })
  } catch {
    skip('a network without IPv4 could not be made here (this wants root and iproute2)')
  }
  const objects = await buildKustomization('deploy/overlays/local')
  const folder = await makeFolder()
  const data = join(folder, 'data')
  mkdirSync(data)
  writeFileSync(join(folder, 'hosts'), '127.0.0.1 localhost\nfd00:6::1 redis nats sluice\n')
  const redis = configurationOf(objects, 'redis-config', 'redis.conf')
  writeFileSync(join(folder, 'redis.conf'), replaceEach(redis, [{ found: 'dir /data', by: `dir ${data}` }]))
  const nats = replaceEach(natsConfiguration(objects), [{ found: 'store_dir: "/data"', by: `store_dir: "${data}"` }])
  writeFileSync(join(folder, 'nats.conf'), nats)
  writeFileSync(join(folder, 'batch.json'), single('ak_six'))
  const manifest = environmentOf(objects, workload(objects, 'sluice').pod.containers[0], () => '')
  expect(manifest).not.toHaveProperty('HOST')
  const env = { ...process.env, ...manifest, FOLDER: folder, NATS_SERVER, NODE: process.execPath, MAIN }
  // Whatever it has started ends with it.
  const script = spawn('timeout', ['-s', 'KILL', '200', 'unshare', '-nmpf', '--kill-child', 'bash', '-c', SCRIPT], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [output, errors] = await Promise.all([text(script.stdout), text(script.stderr)])
  const [status, stored, ...state] = output.split('\n')
  expect({ status, stored }, errors).toEqual({ status: '202', stored: '1' })
  expect(state.join('\n')).toContain('limits: ok, in Redis')
})

it('asks for both families where the cluster has both', async () => {
  for (const overlay of ['local', 'production']) {
    const services = servicesOf(await buildKustomization(`deploy/overlays/${overlay}`))
    for (const { metadata, spec } of services) expect(spec?.ipFamilyPolicy, metadata.name).toBe('PreferDualStack')
  }
})
