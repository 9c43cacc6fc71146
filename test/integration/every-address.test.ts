// A service that is told of no address, or of `::`, is reached over IPv6 and IPv4, on the public port and on the portal's.

import { connect } from 'node:net'
import { beforeAll, expect, test } from 'vitest'
import { readConfig } from '../../src/settings/config.ts'
import { withOwnAddresses } from '../../src/start/addresses.ts'
import { type Service, startService } from '../support/service.ts'

async function statusOf(url: string): Promise<number> {
  return (await fetch(url)).status
}

/** What a server says to a request; '': it closed the connection, or nobody listens. */
function answerAt(host: string, port: number, head: string): Promise<string> {
  return new Promise((done) => {
    const socket = connect({ host, port }, () => socket.write(head))
    let answer = ''
    socket.setEncoding('latin1').on('data', (text: string) => (answer += text))
    socket.once('error', () => done(''))
    socket.once('close', () => done(answer))
  })
}

let service: Service
beforeAll(async () => {
  const hosts = { HOST: '', SLUICE_ADMIN_HOST: '::', SLUICE_PORTAL_PORT: '0', SLUICE_PORTAL_HOST: '::' }
  service = await startService({ env: { ...hosts, SLUICE_PORTAL_ORIGIN: 'https://usage.example.com' } })
})

test('a service without an address listens on all of IPv6 and IPv4', async () => {
  expect(await statusOf(`http://[::1]:${service.port}/api/v1/events`)).toBe(405)
  expect(await statusOf(`http://127.0.0.1:${service.port}/api/v1/events`)).toBe(405)
})

test('admin port and portal do where they are told to', async () => {
  expect(await statusOf(`http://[::1]:${service.adminPort}/livez`)).toBe(200)
  expect(await statusOf(`http://127.0.0.1:${service.adminPort}/livez`)).toBe(200)
  const head = 'GET / HTTP/1.1\r\nHost: usage.example.com\r\nConnection: close\r\n\r\n'
  for (const host of ['::1', '127.0.0.1'])
    expect(await answerAt(host, service.portalPort, head)).toMatch(/^HTTP\/1.1 200 /)
})

test('an address that another service has is an error, whichever family it took', async () => {
  for (const host of ['', '0.0.0.0', '::1']) {
    const second = startService({ env: { HOST: host, PORT: String(service.port) } })
    await expect(second).rejects.toThrow(/cannot listen on .*: sluice runs here already/)
  }
})

test('a system without IPv6 listens on IPv4 alone, and says so once', async () => {
  const notices: string[] = []
  const environment = { SLUICE_PORTAL_PORT: '9191', SLUICE_ADMIN_HOST: '127.0.0.1' }
  const config = readConfig(environment)
  const own = await withOwnAddresses(
    config,
    (message) => notices.push(message),
    async () => false,
  )
  expect(own).toMatchObject({ publicHost: '0.0.0.0', adminHost: '127.0.0.1', portal: { host: '127.0.0.1' } })
  expect(notices).toEqual([expect.stringContaining('this system has no IPv6')])
  expect(
    await withOwnAddresses(
      config,
      () => {},
      async () => true,
    ),
  ).toBe(config)
})
