import t from 'tap'
import { parseHostsFile } from '../../src/dns/hosts-file.js'

t.test('holds the addresses of each name, in the order of the lines (hosts(5))', async t => {
  const hosts = parseHostsFile(`# comment
127.0.0.1\tlocalhost
::1     localhost ip6-localhost   # loopback
10.0.0.1 DB.Corp.Test db
10.0.0.2 db#second
10.0.0.2 db
  10.0.0.3   indented\r
#10.0.0.4 db
`)
  t.same(
    [...hosts],
    [
      ['localhost', ['127.0.0.1', '::1']],
      ['ip6-localhost', ['::1']],
      ['db.corp.test', ['10.0.0.1']],
      ['db', ['10.0.0.1', '10.0.0.2']],
      ['indented', ['10.0.0.3']],
    ],
  )
})

t.test('leaves out what is no plain address', async t => {
  t.same([...parseHostsFile('fe80::1%lo0 localhost\nname name\n127.1 short\n\n10.0.0.1\n')], [])
})
