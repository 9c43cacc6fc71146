// Names of webhooks whose DNS says nothing: the owner of a name has power over that, and no other address may wait for it.

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { deliver } from '../../examples/shared/webhooks/deliver.js'
import { lookUp } from '../../examples/shared/webhooks/lookup.js'
import { type DnsServer, startDns } from '../support/dns.ts'
import { eventually, makeFolder } from '../support/service.ts'
import { alert, NEW, NOW_MS, serve, startExample } from '../support/webhooks.ts'

async function dns(names: readonly string[] = [], host?: string, port?: number): Promise<DnsServer> {
  const server = await startDns(names, host, port)
  onTestFinished(() => server.stop())
  return server
}

const never = new AbortController().signal

describe('the addresses of a name', () => {
  it('are what DNS says', async () => {
    const { port } = await dns(['good.example'])
    expect(await lookUp('good.example', never, { servers: [`127.0.0.1:${port}`] })).toEqual(['127.0.0.1'])
  })

  it('are not waited for when its time is over, nor when the attempt is', async () => {
    const { port, asked } = await dns()
    const servers = [`127.0.0.1:${port}`]
    await expect(lookUp('silent.example', never, { servers, timeoutMs: 50 })).rejects.toThrow('DNS did not answer')
    const over = new AbortController()
    const found = lookUp('stopped.example', over.signal, { servers, timeoutMs: 300_000 })
    void eventually('it was asked', () => asked.includes('stopped.example')).then(() => over.abort())
    await expect(found).rejects.toThrow('DNS did not answer')
    await expect(lookUp('late.example', over.signal, { servers })).rejects.toThrow('abort')
    expect(asked).not.toContain('late.example')
  })

  it('are those of this machine for localhost, which is not asked for and stays forbidden', async () => {
    expect(await lookUp('localhost', never, { servers: ['127.0.0.1:1'] })).toEqual(['127.0.0.1', '::1'])
    for (const host of ['localhost', 'a.localhost']) {
      const attempt = { url: `https://${host}/`, secrets: [NEW], id: 'one', body: '{}', number: 0, nowMs: NOW_MS }
      const outcome = await deliver({ ...attempt, allowsLocal: false, signal: never })
      expect(outcome).toMatchObject({ kind: 'failed', why: 'its address is not one of the public internet' })
    }
  })
})

it('an address gets all its alerts while the names of others stay silent, and the program ends in order', async ({
  skip,
}) => {
  const folder = await makeFolder()
  const resolver = '127.7.7.7'
  let server: DnsServer | undefined
  try {
    execFileSync('unshare', ['-m', 'true'], { stdio: 'ignore' })
    server = await dns(['good.example'], resolver, 53)
  } catch {
    console.warn('not run: the resolver of one process could not be replaced here (this wants root)')
    skip()
  }
  writeFileSync(join(folder, 'resolv.conf'), `nameserver ${resolver}\n`)
  const all = Array.from({ length: 24 }, (_, index) => alert(index))
  const sluice = await serve((_, response) => response.end(JSON.stringify({ alerts: all, more: false })))
  const got = new Set<unknown>()
  const hook = await serve((request, response) => {
    got.add(request.headers['webhook-id'])
    request.resume().on('end', () => response.writeHead(204).end())
  })
  const silent = Array.from({ length: 8 }, (_, index) => `slow${index}.example`)
  const urls = [...silent, 'good.example'].map((name) => hook.replace('127.0.0.1', name))
  const endpoints = join(folder, 'webhooks.json')
  writeFileSync(endpoints, JSON.stringify({ endpoints: urls.map((url) => ({ url, secrets: [NEW] })) }))
  const args = ['--sluice', sluice, '--endpoints', endpoints, '--folder', join(folder, 'state'), '--allow-local']
  const program = startExample(
    'webhooks.js',
    [...args, '--every', '0.2', '--from', '2026-11-20T12:00:00Z'],
    { ALERTS_TOKEN: 'rk_x', PATH: process.env['PATH'] ?? '' },
    // In a mount namespace of its own.
    ['unshare', '-m', 'sh', '-c', `mount --bind ${join(folder, 'resolv.conf')} /etc/resolv.conf && exec "$0" "$@"`],
  )
  await eventually('the silent names were asked for', () => silent.every((name) => server?.asked.includes(name)))
  await eventually('all alerts have come', () => got.size === all.length, 30_000)
  expect(await program.end('SIGTERM'), program.texts.stderr).toBe(0)
})
