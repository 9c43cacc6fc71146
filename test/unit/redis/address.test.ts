import { describe, expect, it } from 'vitest'
import { readRedisUrl } from '../../../src/redis/address.ts'

describe('REDIS_URL', () => {
  it.each([
    ['redis://cache', { host: 'cache', port: 6379, username: null, password: null, database: 0, tls: false }],
    ['redis://cache/', { host: 'cache', port: 6379, username: null, password: null, database: 0, tls: false }],
    ['rediss://cache:1/15', { host: 'cache', port: 1, username: null, password: null, database: 15, tls: true }],
    ['redis://:p@cache', { host: 'cache', port: 6379, username: null, password: 'p', database: 0, tls: false }],
    [
      'redis://us%40er:p%3A%2F%25@10.0.0.1:7000/2',
      { host: '10.0.0.1', port: 7000, username: 'us@er', password: 'p:/%', database: 2, tls: false },
    ],
    ['redis://[::1]:7000', { host: '::1', port: 7000, username: null, password: null, database: 0, tls: false }],
  ])('%s is read whole', (url, address) => {
    expect(readRedisUrl(url)).toEqual(address)
  })

  it.each([
    ['secret', 'REDIS_URL: not a URL'],
    ['http://:secret@cache', 'REDIS_URL: must begin with redis:// or rediss://'],
    ['redis://:secret@cache/db', 'REDIS_URL: the database, after the last /, must be a number'],
    ['redis://:secret@cache/1/2', 'REDIS_URL: the database, after the last /, must be a number'],
    ['redis://:secret%@cache', 'REDIS_URL: a % must be followed by two hexadecimal digits'],
  ])('%s is refused without being repeated', (url, message) => {
    expect(() => readRedisUrl(url)).toThrow(new Error(message))
  })
})
