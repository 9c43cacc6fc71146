// Tracks events until it is killed: node tracker.mjs CLIENT_FOLDER URL STORE_FOLDER

const [client, url, folder] = process.argv.slice(2)
const { createClient } = await import(`${client}/index.js`)
const { fileStore } = await import(`${client}/file.js`)
const tracker = createClient({ url, appKey: 'ak_plain', store: fileStore(folder), maxQueueBytes: 50e6 })

setInterval(() => {
  for (let count = 0; count < 40; count++) tracker.track('event', { text: 'x'.repeat(200) })
}, 50)
