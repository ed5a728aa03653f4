// Package secrets has a secret in every spelling in which a message may have one: no report and no
// archive has it.
package secrets

import "regexp"

// Planted is the secret.
const Planted = "hunter2xyz"

// Spellings are the ways in which messages have it.
var Spellings = map[string]string{
	"variable":                     `TOKEN=hunter2xyz`,
	"variable in lower case":       `db_pass=hunter2xyz`,
	"variable that is named aside": `greeting=hunter2xyz`,
	"dotted variable":              `failed to run container with env my.api-key=hunter2xyz`,
	"variable in quotes":           `export Foo="a hunter2xyz"`,
	"variable in single quotes":    `FOO='a hunter2xyz'`,
	"two quotes joined":            `FOO='a'"hunter2xyz"`,
	"escaped blank":                `FOO=a\ hunter2xyz`,
	"escaped quote":                `FOO="a\"hunter2xyz"`,
	"spaces around":                `password = hunter2xyz`,
	"after a flag":                 `docker run -e foo=hunter2xyz image`,
	"PowerShell":                   `$env:Foo = "hunter2xyz"`,
	"list of variables":            `env: [FOO=a hunter2xyz BAR=b]`,
	"bracket":                      `exec: [FOO=a hunter2xyz]`,
	"comma after it":               `FOO=a,hunter2xyz`,
	"JSON":                         `{"name":"KEY","value":"hunter2xyz"}`,
	"JSON with escaped quotes":     `{"name":"KEY","value":"aa\"hunter2xyz"}`,
	"JSON in JSON":                 `{\"name\":\"KEY\",\"value\":\"aa\\\"hunter2xyz\"}`,
	"JSON, pretty":                 `{"name" : "KEY", "value" : "hunter2xyz"}`,
	"JSON of any key":              `{"greeting":"hunter2xyz"}`,
	"JSON list":                    `{"tokens":["a","hunter2xyz"]}`,
	"Secret in JSON":               `{"kind":"Secret","data":{"a":"hunter2xyz"}}`,
	"Secret in YAML":               "kind: Secret\ndata:\n  a: hunter2xyz",
	"stringData in YAML":           "stringData:\n  a: hunter2xyz",
	"YAML":                         "- name: KEY\n  value: hunter2xyz",
	"YAML, literal block":          "- name: KEY\n  value: |\n    hunter2xyz\n    and hunter2xyz",
	"YAML, folded block":           "value: >-\n  a\n\n  hunter2xyz",
	"YAML in quotes":               "value: 'it''s hunter2xyz'",
	"YAML over two lines":          "value: a\n  hunter2xyz",
	"compose":                      `DB_GREETING: hunter2xyz`,
	"kubectl describe":             "    Environment:\n      MY_GREETING:  hunter2xyz",
	"Go":                           `Env:[]EnvVar{EnvVar{Name:KEY,Value:hunter2xyz,ValueFrom:nil}}`,
	"Go over lines": "Env:[]EnvVar{EnvVar{Name:KEY,Value:aaa\nhunter2xyz\n" +
		"bbb,ValueFrom:nil}}",
	"Go's field alone":     "{Name:KEY Value:aaa\nhunter2xyz ValueFrom:nil}",
	"Go's map":             `map[greeting:hunter2xyz other:a]`,
	"Go's %+v":             `{Name:A Value:x hunter2xyz ValueFrom:nil}`,
	"Go's arguments":       `Args:[--greeting hunter2xyz]`,
	"XML attribute":        `<qemu:env name='TOKEN' value='hunter2xyz'/>`,
	"XML element":          `<password>hunter2xyz</password>`,
	"graphics password":    `<graphics type='vnc' passwd='hunter2xyz'/>`,
	"header":               `Authorization: Bearer hunter2xyz`,
	"header in lower case": `authorization: Basic a:hunter2xyz`,
	"header of any name":   `x-my-greeting: hunter2xyz`,
	"cookie":               `Set-Cookie: a=b; session=hunter2xyz`,
	"headers in Go":        `Headers:map[Greeting:[hunter2xyz]]`,
	"headers in JSON":      `{"headers":{"greeting":"hunter2xyz"}}`,
	"curl":                 `curl -H 'X-Token: hunter2xyz' https://example.com`,
	"bearer alone":         `got bearer hunter2xyz`,
	"address with user":    `https://u:hunter2xyz@registry.example.com`,
	"address with query":   `https://example.com/?a=b&sig=hunter2xyz`,
	"flag with =":          `--password=hunter2xyz`,
	"flag with blank":      `--api-token hunter2xyz`,
	"sentence":             `the password is hunter2xyz`,
	"sentence, turned":     `hunter2xyz is the password`,
	"chpasswd":             `chpasswd root:hunter2xyz`,
	"JSON Web Token":       `eyJhbGciOi.eyJzdWhunter2xyz.sig-hunter2xyz`,
	"private key": "-----BEGIN RSA PRIVATE KEY-----\nhunter2xyz\n" +
		"-----END RSA PRIVATE KEY-----",
	"token by its prefix":  `hf_abcdefghunter2xyz`,
	"SSH key":              `ssh-rsa AAAAhunter2xyz user`,
	"cloud-init":           "#cloud-config\nruncmd: [echo hunter2xyz]",
	"cloud-init's field":   `UserData:hunter2xyz`,
	"cloud-init in base64": `{"userDataBase64":"hunter2xyz"}`,
	"network data":         `networkData: {a: hunter2xyz}`,
	"script":               "#!/bin/sh\necho hunter2xyz",
	"annotation":           `Annotations:map[string]string{"a": "hunter2xyz"}`,
	"admission":            `spec.containers[0].env[0]: Invalid value: "hunter2xyz": must not`,
}

// Lines are more of them: arguments of commands, fields of files, sentences, protocols.
var Lines = []string{
	`curl -u admin:hunter2xyz https://h/`,
	`curl --user admin:hunter2xyz https://h/`,
	`mysql -uroot -phunter2xyz -h db`,
	`sshpass -p hunter2xyz ssh root@h`,
	`tool --pass hunter2xyz`,
	`password%3Dhunter2xyz`,
	`Password for user admin is hunter2xyz`,
	`login admin / hunter2xyz failed: bad password`,
	`<Password><Value>hunter2xyz</Value></Password>`,
	`psk: hunter2xyz`,
	`chap_secret hunter2xyz`,
	`keytab: hunter2xyz`,
	`otp: hunter2xyz`,
	`client-key-data: hunter2xyz`,
	"\"password\":\n   \"hunter2xyz\"",
	"Environment:\n      FOO:  hunter2xyz\n      BAR:  x",
	"args:\n- --x\n- hunter2xyz",
	"Args:\n      --x\n      hunter2xyz",
	"command:\n- sh\n- -c\n- echo hunter2xyz",
	"Annotations:  foo: hunter2xyz\n              bar: x",
	"Annotations:  bar: x\n              foo: hunter2xyz",
	"- name: A\n  env:\n  - name: KEY\n    value: hunter2xyz\n  image: x",
	`ecdsa-sha2-nistp256 AAAAhunter2xyz`,
	`sk-ssh-ed25519@openssh.com AAAAhunter2xyz`,
	`$2b$10$abcdefhunter2xyz`,
	`$y$j9T$a$hunter2xyz`,
	`abcdef.hunter2xyz000000 is a token of kubeadm`,
	`u:hunter2xyz@registry.example.com/image`,
	`redis-cli -h db -a hunter2xyz ping`,
	`mongosh -u root -p hunter2xyz`,
	`ldapsearch -x -D cn=admin -w hunter2xyz -b dc=x`,
	`ipmitool -I lanplus -H bmc -U admin -P hunter2xyz power status`,
	`smbclient //h/s -U admin%hunter2xyz`,
	`net use Z: \\h\s /user:admin hunter2xyz`,
	`openssl pkcs12 -in a.p12 -passin pass:hunter2xyz`,
	`htpasswd -b /etc/htpasswd admin hunter2xyz`,
	`echo hunter2xyz | sudo -S dmidecode`,
	`echo "root:hunter2xyz" | chpasswd`,
	"+ cryptsetup luksOpen /dev/vdb data -\n+ echo -n hunter2xyz\nNo key available",
	"++ printf %s hunter2xyz\n+ base64",
	`tpm2_unseal -c 0x81000001 -p hunter2xyz: exit status 1`,
	`tpm2 nvread 1 -P hunter2xyz`,
	`unzip -P hunter2xyz a.zip`,
	`gpg --batch --passphrase hunter2xyz -d a.gpg`,
	`7z x -phunter2xyz a.7z`,
	`oc login --token=sha256~hunter2xyzhunter2xyz`,
	`oc login -u admin -p hunter2xyz https://api:6443`,
	`nmcli con add wifi-sec.psk hunter2xyz`,
	`wpa_passphrase home hunter2xyz`,
	`snmpget -v2c -c hunter2xyz host`,
	`snmpwalk -v3 -A hunter2xyz -X hunter2xyz host`,
	`sshpass -phunter2xyz ssh root@h`,
	`sqlplus admin/hunter2xyz@db`,
	`rabbitmqctl add_user u hunter2xyz`,
	`kubectl create secret generic x --from-literal=a=hunter2xyz`,
	`aws configure set aws_secret_access_key hunter2xyz`,
	`mc alias set m http://h admin hunter2xyz`,
	`virsh secret-set-value 9a3d4e5f-0000-4000-8000-000000000001 hunter2xyz`,
	`virsh set-user-password vm root hunter2xyz`,
	`virt-customize -a d.img --root-password password:hunter2xyz`,
	`iscsiadm -m node --op update -n node.session.auth.password -v hunter2xyz`,
	`mount -t cifs //h/s /mnt -o username=a,password=hunter2xyz`,
	`{"execute":"set_password","arguments":{"protocol":"vnc","password":"hunter2xyz"}}`,
	`set_password vnc hunter2xyz`,
	`root:$6$abc$hunter2xyz:19000:0:99999:7:::`,
	"-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2xyz\n-----END PGP PRIVATE KEY BLOCK-----",
	`AGE-SECRET-KEY-1hunter2xyz`,
	`otpauth://totp/x?secret=hunter2xyz`,
	`PrivateKey = hunter2xyz=`,
	`PresharedKey = hunter2xyz=`,
	`{"auths":{"registry":{"auth":"hunter2xyz"}}}`,
	`machine h login u password hunter2xyz`,
	`Authorization: Digest username="a", realm="b", response="hunter2xyz"`,
	`Authorization: AWS4-HMAC-SHA256 Credential=a, Signature=hunter2xyz`,
	`X-Amz-Security-Token: hunter2xyz`,
	`metadata: authorization:[Bearer hunter2xyz]`,
	`Config{Password:"hunter2xyz", Host:"h"}`,
	`{'password': 'hunter2xyz'}`,
	`connect(password='hunter2xyz')`,
	`java -Dpassword=hunter2xyz -jar a.jar`,
	`-Djavax.net.ssl.keyStorePassword=hunter2xyz`,
	`| password | hunter2xyz |`,
	`password -> hunter2xyz`,
	`("password", "hunter2xyz")`,
	`<input type="password" value="hunter2xyz">`,
	`["password","hunter2xyz"]`,
	"password\thunter2xyz",
	`login failed with password hunter2xyz for admin`,
	`wrong password: hunter2xyz`,
	`CREATE USER a IDENTIFIED BY 'hunter2xyz'`,
	`ALTER ROLE a WITH PASSWORD 'hunter2xyz'`,
	`Server=a;User Id=b;Password=hunter2xyz;`,
	`mongodb+srv://a:hunter2xyz@h/db`,
	`amqp://a:hunter2xyz@h`,
	`jdbc:mysql://h/db?user=a&password=hunter2xyz`,
	`jdbc:oracle:thin:a/hunter2xyz@h:1521`,
	`git clone https://hunter2xyz@github.com/a/b`,
	`git -c http.extraheader="AUTHORIZATION: basic hunter2xyz" fetch`,
	`ansible_password=hunter2xyz`,
	`ansible_ssh_pass: hunter2xyz`,
	`vault kv put secret/x value=hunter2xyz`,
	`Vault token: hunter2xyz`,
	`VAULT_TOKEN=hunter2xyz vault read x`,
	`tls.key: hunter2xyz`,
	`ca.key=hunter2xyz`,
	`dockerconfigjson: hunter2xyz`,
	`AccessKeyId=a SecretAccessKey=hunter2xyz`,
	`aws_session_token = hunter2xyz`,
	`client_assertion=hunter2xyz`,
	`refresh_token=hunter2xyz`,
	`id_token=hunter2xyz`,
	`code_verifier=hunter2xyz`,
	`SAMLResponse=hunter2xyz`,
	`csrf=hunter2xyz`,
	`sessionid=hunter2xyz`,
	`PHPSESSID=hunter2xyz`,
	`keystore.password=hunter2xyz`,
	`spring.datasource.password: hunter2xyz`,
	`"spring.datasource.password": "hunter2xyz"`,
	`rootpw --plaintext hunter2xyz`,
	`rootpw hunter2xyz`,
	`user --name=a --password=hunter2xyz`,
	`d-i passwd/root-password password hunter2xyz`,
	`<UserPassword><Value>hunter2xyz</Value></UserPassword>`,
	`<AutoLogon><Password><Value>hunter2xyz</Value></Password></AutoLogon>`,
	`<ProductKey><Key>hunter2xyz</Key></ProductKey>`,
	`<ProductKey>hunter2xyz</ProductKey>`,
	`NVIDIA license server token hunter2xyz`,
	`ceph --key hunter2xyz`,
	`cephx key hunter2xyz denied`,
	`session_key hunter2xyz`,
	`the activation key hunter2xyz is invalid`,
	`product key: hunter2xyz`,
	`nvme connect -t tcp -a 10.0.0.1 -S hunter2xyz -n nqn`,
	`nvme: invalid secret DHHC-1:00:hunter2xyzAAAAAAAAAAAA:`,
	`rbd:pool/img:id=admin:key=hunter2xyz:auth_supported=cephx`,
	`key = hunter2xyz`,
	"[client.admin]\n\tkey = hunter2xyz",
	`secret=hunter2xyz,name=admin`,
	"userID: admin\nuserKey: hunter2xyz",
	`chap.node.session.auth.password: hunter2xyz`,
	`bind dn cn=a password hunter2xyz`,
	`kinit admin <<< hunter2xyz`,
	`expect "password:" send "hunter2xyz\r"`,
	`sudo: hunter2xyz is the password`,
	`PIN: 4711hunter2xyz`,
	`unlock PIN is hunter2xyz`,
	`passphrase for key /root/.ssh/id: hunter2xyz`,
	`Enter passphrase for /root/x: hunter2xyz`,
	`Password [hunter2xyz]:`,
	`the new credentials are admin:hunter2xyz`,
	`credentials: admin/hunter2xyz`,
	`creds=admin:hunter2xyz`,
	`auth: admin:hunter2xyz`,
	`basic auth admin:hunter2xyz failed`,
	`user=admin&pass=hunter2xyz&x=1`,
	`POST /login pass=hunter2xyz`,
	`passwd: hunter2xyz`,
	`hashed_passwd: hunter2xyz`,
	`plain_text_passwd: hunter2xyz`,
	"  - content: hunter2xyz\n    path: /etc/pw",
	"write_files:\n- path: /etc/pw\n  content: hunter2xyz",
	"write_files:\n- content: |\n    hunter2xyz\n  path: /etc/x",
	"runcmd:\n- [sh, -c, \"echo hunter2xyz\"]",
	"bootcmd:\n  - echo hunter2xyz",
	"chpasswd:\n  users:\n  - {name: root, password: hunter2xyz}",
	"ssh_pwauth: true\npassword: hunter2xyz",
	`Environment="FOO=hunter2xyz"`,
	`ExecStart=/bin/x --token hunter2xyz`,
	"Env:\n  FOO: hunter2xyz",
	"containers:\n- name: a\n  env:\n  - name: A\n    value: hunter2xyz\n  image: b",
	`env -i FOO=hunter2xyz cmd`,
	`FOO=hunter2xyz BAR=baz cmd`,
	`export foo=hunter2xyz; cmd`,
	`kubeadm join h:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:hunter2xyz`,
	`wget --http-password=hunter2xyz https://h`,
	`wget --user=a --password hunter2xyz https://h`,
	`curl -d '{"password":"hunter2xyz"}' https://h`,
	`curl -d password=hunter2xyz https://h`,
	`curl --data-urlencode "pass=hunter2xyz" https://h`,
	`curl -b session=hunter2xyz https://h`,
	`curl -H "PRIVATE-TOKEN: hunter2xyz" https://h`,
	`curl -H "api-key: hunter2xyz" https://h`,
	`curl -sSLu admin:hunter2xyz https://h`,
	`https://h/?token=hunter2xyz#x`,
	`https://h/api/v1/token/hunter2xyz`,
	`wss://h/x?access_token=hunter2xyz`,
	`https://hooks.slack.com/services/T0/B0/hunter2xyz`,
	`https://h.blob.core.windows.net/x?sv=1&sig=hunter2xyz`,
	`s3://hunter2xyz:hunter2xyz@bucket`,
	`ftp://a:hunter2xyz@h`,
	`spice password hunter2xyz`,
	`-spice port=5900,password=hunter2xyz`,
	`-vnc :1,password-secret=sec0 -object secret,id=sec0,data=hunter2xyz`,
	`-chardev socket,id=a,password=hunter2xyz`,
	`-iscsi user=a,password=hunter2xyz`,
	`-drive file.password-secret=hunter2xyz`,
	`pkcs11:token=a;pin-value=hunter2xyz`,
	`pkcs11:object=a?pin-value=hunter2xyz`,
	`luks passphrase hunter2xyz`,
	`cryptsetup luksOpen /dev/x y --key-file=- <<< hunter2xyz`,
	`helm upgrade a b --set adminPassword=hunter2xyz`,
	`argocd login h --username a --password hunter2xyz`,
	`docker login -u a --password hunter2xyz r`,
	`podman login -u=a -p=hunter2xyz r`,
	`skopeo copy --src-creds a:hunter2xyz docker://x y`,
	`skopeo copy --dest-creds=a:hunter2xyz x y`,
	`crane auth login r -u a -p hunter2xyz`,
	`ngc config set --api-key hunter2xyz`,
	`huggingface-cli login --token hunter2xyz`,
	`HUGGING_FACE_HUB_TOKEN=hunter2xyz`,
	`wandb login hunter2xyz`,
	`export WANDB_API_KEY=hunter2xyz`,
	`OPENAI_API_KEY=sk-proj-hunter2xyz`,
	`AZURE_CLIENT_SECRET=hunter2xyz`,
	`private_key: hunter2xyz`,
	`privateKey: hunter2xyz`,
	`--certificate-key hunter2xyz`,
	`encryption_key=hunter2xyz`,
	`master_key: hunter2xyz`,
	`ENCRYPTION KEY hunter2xyz`,
	`api key: hunter2xyz`,
	`API key hunter2xyz is invalid`,
	`access key hunter2xyz not found`,
	`secret key: hunter2xyz`,
	`Secret: hunter2xyz`,
	`secret is hunter2xyz`,
	`rclone config create r s3 secret_access_key hunter2xyz`,
	`rsync --password-file=<(echo hunter2xyz) a b`,
	`wg set wg0 private-key <(echo hunter2xyz)`,
	`etcdctl --user root:hunter2xyz get /`,
	`ctr images pull --user a:hunter2xyz r/i`,
	`regctl registry login r -u a -p hunter2xyz`,
	`racadm -r b -u root -p hunter2xyz getsysinfo`,
	`redfishtool -r b -u root -p hunter2xyz Systems`,
	`tool -u a -p hunter2xyz x`,
	`http -a a:hunter2xyz https://h`,
	`xfreerdp /u:a /p:hunter2xyz /v:h`,
	`rdesktop -u a -p hunter2xyz h`,
	`ncftpput -u a -p hunter2xyz h`,
	`net ads join -U admin%hunter2xyz`,
	`adcli join --stdin-password <<< "hunter2xyz"`,
	`ldappasswd -s hunter2xyz -D cn=a`,
	`kadmin -p a -w hunter2xyz -q x`,
	`ssh-keygen -N hunter2xyz -f k`,
	`ssh-keygen -p -P hunter2xyz -N "" -f k`,
	`rar a -hphunter2xyz a.rar f`,
	`usermod -p hunter2xyz root`,
	`SUSEConnect -r hunter2xyz -e a@b`,
	`pro attach hunter2xyz`,
	`cargo login hunter2xyz`,
	`twine upload -u __token__ -p hunter2xyz dist/*`,
	`ConvertTo-SecureString "hunter2xyz" -AsPlainText -Force`,
	`New-Object PSCredential("a", "hunter2xyz")`,
	`mot de passe : hunter2xyz`,
	`contraseña: hunter2xyz`,
	`gsk_hunter2xyzaaaaaaaaaa`,
	`r8_hunter2xyzaaaaaaaaaa`,
	`GOCSPX-hunter2xyzaaaaaa`,
	`x.atlasv1.hunter2xyzaaaa`,
	`vault:v1:hunter2xyzaaaa`,
	`https://h/cb?code=hunter2xyz&state=x`,
	`https://h/_token/hunter2xyz`,
	`https://api.telegram.org/bot1:hunter2xyz/x`,
	`https://discord.com/api/webhooks/1/hunter2xyz`,
	`https://o.webhook.office.com/webhookb2/hunter2xyz`,
	`<WLANProfile><keyMaterial>hunter2xyz</keyMaterial></WLANProfile>`,
	"Data\n====\npassword:\n----\nhunter2xyz\n",
	"Data\n====\nconfig.yaml:\n----\ngreeting: hunter2xyz\n\nBinaryData\n====\n",
	"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\nhunter2xyz",
	// hashes and keys
	`{SSHA512}hunter2xyz`,
	`$apr1$a$hunter2xyz`,
	`grub.pbkdf2.sha512.10000.hunter2xyz`,
	"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nhunter2xyz\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
	"-----BEGIN OpenVPN Static key V1-----\nhunter2xyz\n-----END OpenVPN Static key V1-----",
	`K10abcdefabcdefabcdef::server:hunter2xyz`,
	// addresses and escapes
	`dial a:hunter2xyz@10.0.0.5:5432`,
	`dial a:hunter2xyz@[fd00::5]:5432`,
	`password%253Dhunter2xyz`,
	`{"msg":"token\u003dhunter2xyz"}`,
	// commands and configurations
	`fence_ipmilan -a h -l root -p hunter2xyz`,
	`mosquitto_pub -h h -u a -P hunter2xyz`,
	`swaks --to a -ap hunter2xyz`,
	`swift -A h -U a -K hunter2xyz list`,
	`consul agent -encrypt hunter2xyz`,
	`vault operator unseal hunter2xyz`,
	`mc config host add a https://h a hunter2xyz`,
	`ipmitool user set password 2 hunter2xyz`,
	`openssl passwd -6 hunter2xyz`,
	`rclone obscure hunter2xyz`,
	`requirepass hunter2xyz`,
	`bindpw hunter2xyz`,
	`IDENTIFIED WITH a BY 'hunter2xyz'`,
	`postgres://app:ab/hunter2xyz@db:5432/x`,
	`posting to https://hooks.example.com/workflows/T0/hunter2xyz`,
	`posting to https://chat.example.com/hooks/hunter2xyz`,
	`GET https://objectstorage.example.com/p/hunter2xyz/n/ns`,
	`GET https://images.example.com/a.qcow2?hunter2xyz`,
	"chpasswd <<EOF\nroot:hunter2xyz\nubuntu:hunter2xyz\nEOF",
	"Set the following 'random' passwords\nroot:hunter2xyz",
	`&lt;password&gt;hunter2xyz&lt;/password&gt;`,
	`<param name="password">hunter2xyz</param>`,
	`<entry key="db.password">hunter2xyz</entry>`,
	`Unseal Key 1: hunter2xyz`,
	`verification code: hunter2xyz`,
	`connect system/hunter2xyz@orcl`,
	`HTTPBasicAuth('admin', 'hunter2xyz')`,
	`alice : EAP "hunter2xyz"`,
	`rocommunity hunter2xyz 10.0.0.0/8`,
	`snmp-server community hunter2xyz RO`,
	// tables, files and blocks of YAML
	"| user | password |\n|---|---|\n| admin | hunter2xyz |\n| guest | hunter2xyz |",
	"+---+---+\n| user | password |\n+---+---+\n| admin | hunter2xyz |\n+---+---+",
	"NAME    PASSWORD     NODE\nvm1     hunter2xyz   a\n        hunter2xyz   b",
	"username,password\nadmin,hunter2xyz\nguest,hunter2xyz",
	"user\ttoken\nadmin\thunter2xyz\nguest\thunter2xyz",
	`db.example.com:5432:orders:app:hunter2xyz`,
	`*:*:*:app:hunter2xyz`,
	`[smtp.example.com]:587 relay@example.com:hunter2xyz`,
	"password=ab\\\n  hunter2xyz",
	"snap:\n  commands:\n    - snap login-with hunter2xyz",
	"late-commands:\n  - curtin in-target -- activate hunter2xyz",
	`encrypt: hunter2xyz`,
	"/registry/secrets/ml/db Secret\x12\x08password\x12\x0ahunter2xyz\x1a\x06Opaque",
	`/registry/secrets/ml/db Secret\u0012\u000ahunter2xyz`,
	"2026-11-22T10:00:00Z chpasswd:\n2026-11-22T10:00:00Z   list: |\n2026-11-22T10:00:00Z     root:hunter2xyz",
	"Nov 22 10:00:00 vm cloud-init[812]: chpasswd:\nNov 22 10:00:00 vm cloud-init[812]:   list: |\n" +
		"Nov 22 10:00:00 vm cloud-init[812]:     root:hunter2xyz",
	"┌──────┬──────────┐\n│ user │ password │\n├──────┼──────────┤\n│ a    │ hunter2xyz │",
	"USER PASSWORD\nadmin hunter2xyz",
	"\"user\",\"password\"\n\"a\",\"hunter2xyz\"",
	"[   12.345678] cloud-init[812]: chpasswd:\n[   12.345679] cloud-init[812]:   list: |\n" +
		"[   12.345680] cloud-init[812]:     root:hunter2xyz",
	"2026-11-22 10:00:00,123 - util.py[DEBUG]: chpasswd:\n2026-11-22 10:00:00,123 - util.py[DEBUG]:   hunter2xyz",
	"2026-11-22T10:00:00.1Z stdout F chpasswd:\n2026-11-22T10:00:00.1Z stdout F   hunter2xyz",
	`[::1]:15432:db:u:hunter2xyz`,
	`tool -p "a b hunter2xyz" -u x`,
	// XML and values with a sign before them or in parentheses
	`<key>Password</key><string>hunter2xyz</string>`,
	`<password><![CDATA[hunter2xyz]]></password>`,
	`<param name=\"password\">hunter2xyz</param>`,
	`requests.get(url, auth=('admin', 'hunter2xyz'))`,
	`{'Authorization': b'a hunter2xyz'}`,
	`New-PSSession -Credential (Get-Cred admin hunter2xyz)`,
	`if password == "hunter2xyz"`,
	// addresses
	`postgres://app:ab@hunter2xyz@db:5432/x`,
	`Get "https://cloud.example.com/s/hunter2xyz/download": 403`,
	`GET http://10.0.0.1/MAAS/metadata/by-key/hunter2xyz/x`,
	`GET https://storage.example.com/p/hunter2xyz/n/ns`,
	`"GET /api/v1/token/hunter2xyz HTTP/1.1" 200`,
	`https://h/artifacts/token:hunter2xyz/x`,
	`GET /s/hunter2xyz/download HTTP/1.1`,
	`https://drive.example.com/file/d/hunter2xyz/view`,
	`https://acme.example.com/:u:/g/personal/a/hunter2xyz`,
	`https://share.example.com/file/abc#hunter2xyzhunter2xyz`,
	`image r/x?hunter2xyz`,
	`redirecting to https%3A%2F%2Fadmin%3Ahunter2xyz%40h%2F`,
	`source data:;base64,hunter2xyz fetched`,
	`_json_key:hunter2xyz@10.0.0.1:5000/x`,
	// commands, protocols and sentences
	`username admin password 7 hunter2xyz`,
	`enable secret 5 hunter2xyz`,
	`enable secret level 15 5 hunter2xyz`,
	`wpa-psk ascii 0 hunter2xyz`,
	`password != "hunter2xyz"`,
	`simple_bind_s("cn=a,dc=x", "hunter2xyz")`,
	`logging in as admin:hunter2xyz`,
	`ldap_bind cn=admin,dc=x with hunter2xyz failed`,
	`ipmipower -p hunter2xyz -u ADMIN -h bmc`,
	`redfish: login ADMIN/hunter2xyz at bmc refused`,
	`redis: AUTH default hunter2xyz`,
	`1732269600.1 [0 10.0.0.1:1] "AUTH" "hunter2xyz"`,
	`1732269600.1 [0 10.0.0.1:1] "AUTH" "default" "hunter2xyz"`,
	`user admin, pass hunter2xyz refused`,
	`auth: admin/hunter2xyz`,
	`authenticating as admin:hunter2xyz`,
	`hunter2xyz  # root password`,
	`hunter2xyz (admin password)`,
	`reg add HKLM\Winlogon /v DefaultPassword /t REG_SZ /d hunter2xyz /f`,
	`schtasks /create /tn x /ru admin /rp hunter2xyz`,
	`composer config http-basic.repo.example.com u hunter2xyz`,
	`expect "*?assword:*"; send -- "hunter2xyz\r"; send "hunter2xyz"`,
	`VNC ticket hunter2xyz for vm`,
	`wandb: Appending key for api.wandb.ai to your netrc file: hunter2xyz`,
	`level=error msg="alice : XAUTH \"hunter2xyz\""`,
	`level=error msg="db.auth(\"admin\", \"hunter2xyz\")"`,
}

// Kept returns the words of an object that have to stay: those that begin with "kept-".
func Kept(object string) []string {
	return regexp.MustCompile(`kept-[a-z0-9]+`).FindAllString(object, -1)
}

// Domain is a domain with secrets.
const Domain = `<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>default_dgx</name>
  <uuid>9a3d4e5f-0000-4000-8000-000000000001</uuid>
  <description>hunter2xyz</description>
  <!-- hunter2xyz -->
  <?greeting hunter2xyz?>
  <metadata>
    <kubevirt xmlns="http://kubevirt.io">
      <kubevirt:uid>9a3d4e5f-0000-4000-8000-000000000002</kubevirt:uid>
    </kubevirt>
    <greeting xmlns="http://example.com">hunter2xyz</greeting>
  </metadata>
  <launchSecurity type='sev'>
    <session>hunter2xyz</session>
  </launchSecurity>
  <sysinfo type='fwcfg'>
    <entry name='opt/ovmf/X-PciMmio64Mb'>65536</entry>
    <entry name='opt/com.coreos/config'>{"ignition": "hunter2xyz"}</entry>
  </sysinfo>
  <sysinfo type='smbios'>
    <oemStrings>
      <entry>io.systemd.credential:passwd.hashed-password.root=hunter2xyz</entry>
    </oemStrings>
  </sysinfo>
  <os>
    <cmdline>console=ttyS0 key=hunter2xyz</cmdline>
  </os>
  <devices>
    <disk type='network' device='disk'>
      <source protocol='https' name='disk.img' query='sig=hunter2xyz'>
        <host name='storage' port='443'/>
        <cookies>
          <cookie name='session'>hunter2xyz</cookie>
        </cookies>
      </source>
    </disk>
    <disk type='file' device='disk'>
      <source file='https://user:hunter2xyz@storage/disk.img'/>
    </disk>
    <disk type='file' device='disk'>
      <source file='json:{&quot;file.password&quot;:&quot;hunter2xyz&quot;}'/>
    </disk>
    <disk type='network' device='disk'>
      <source protocol='http' name='disk.img?a=b&amp;token=hunter2xyz'/>
    </disk>
    <disk type='network' device='disk'>
      <source protocol='rbd' name='pool/image:key=hunter2xyz'/>
    </disk>
    <disk type='network' device='disk'>
      <source protocol='https' name='p/hunter2xyz/n/ns/b/disk.img'/>
    </disk>
    <disk type='network' device='disk'>
      <source protocol='https' name='disk.img?hunter2xyz'/>
    </disk>
    <disk type='network' device='disk'>
      <source protocol='ssh' name='/disk.img'>
        <identity username='admin:hunter2xyz'/>
      </source>
    </disk>
    <interface type='ethernet'>
      <filterref filter='clean-traffic'>
        <parameter name='IP' value='10.0.0.5'/>
        <parameter name='PSK' value='hunter2xyz'/>
      </filterref>
    </interface>
    <graphics &#x70;asswd='hunter2xyz'/>
    <filesystem type='mount'>
      <binary path='/usr/libexec/virtiofsd --token hunter2xyz'/>
    </filesystem>
    <serial type='tcp'>
      <source mode='connect' host='u:hunter2xyz@storage' service='1'/>
    </serial>
    <hostdev mode='subsystem' type='pci' managed='no'>
      <source>
        <address domain='0x0000' bus='0x1b' slot='0x00' function='0x0'/>
      </source>
      <alias name='ua-gpu-gpu1'/>
    </hostdev>
    <graphics type='vnc' socket='/vnc' passwd='hunter2xyz'>
    </graphics>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-fw_cfg'/>
    <qemu:arg value='name=opt/ovmf/X-PciMmio64Mb,string=65536'/>
    <qemu:arg value='-fw_cfg'/>
    <qemu:arg value='name=opt/com.coreos/config,string=hunter2xyz'/>
    <qemu:arg value='-fw_cfg'/>
    <qemu:arg value='name=opt/ovmf/X-PciMmio64Mb,hunter2xyz,id=hook-sidecar-mmio-window'/>
    <qemu:arg value='-machine'/>
    <qemu:arg value='q35,greeting=token hunter2xyz'/>
    <qemu:arg value='-object'/>
    <qemu:arg value='{"qom-type":"secret","id":"a","data":"hunter2xyz"}'/>
    <qemu:arg value='-device'/>
    <qemu:arg value='pcie-root-port,id=a,bus=pcie.0'/>
    <qemu:arg value='-smbios'/>
    <qemu:arg value='type=11,value=hunter2xyz'/>
    <qemu:arg value='hunter2xyz'/>
    <qemu:arg value="-object secret,id=b,data=hunter2xyz"/>
    <qemu:arg value="-object"/>
    <qemu:arg value="secret,id=c,data=a,,hunter2xyz"/>
    <qemu:arg value="-object"/>
    <qemu:arg value="{&quot;qom-type&quot; : &quot;secret&quot;, &quot;data&quot; : &quot;a,b hunter2xyz&quot;}"/>
    <qemu:env name='GREETING' value='hunter2xyz'/>
  </qemu:commandline>
  <qemu:override>
    <qemu:device alias='ua-gpu-gpu1'>
      <qemu:frontend>
        <qemu:property name='x-speed' type='string' value='16'/>
        <qemu:property name='greeting' type='string' value='hunter2xyz'/>
      </qemu:frontend>
    </qemu:device>
  </qemu:override>
</domain>
`

// Objects are objects of the API server with a secret in each place, as YAML.
var Objects = map[string]string{
	"VirtualMachineInstance": `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata:
  name: kept-dgx
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"spec": "hunter2xyz"}'
    kubevirt.io/ignitiondata: hunter2xyz
    hostdev.vm.kubevirt.io/layout: kept-layout
    hostdev.vm.kubevirt.io/greeting: hunter2xyz
    hostdev.vm.kubevirt.io/port-speed: hunter2xyz
    hooks.kubevirt.io/hookSidecars: '[{"image": "kept-image", "args": ["--layout", "kept-mirror", "--token=hunter2xyz", "--greeting", "hunter2xyz"], "pvc": {"name": "kept-pvc", "x": "hunter2xyz"}}]'
  managedFields: [{fieldsV1: {"v:hunter2xyz": {}}}]
  labels: {app: kept-label, token: hunter2xyz}
spec:
  accessCredentials:
  - sshPublicKey: {source: {secret: {secretName: kept-secret}}}
  - userPassword: {source: {value: hunter2xyz, secret: {secretName: kept-password}}}
  greeting:
  - {key: kept-pair, value: hunter2xyz}
  - {tokens: [hunter2xyz, {a: hunter2xyz}], password: {value: hunter2xyz}, rootPass: hunter2xyz}
  - {adminKey: hunter2xyz, auth: hunter2xyz, PSK: hunter2xyz, pin: hunter2xyz, keyring: hunter2xyz}
  - {secret: {items: [{key: kept-item, path: kept-file}]}, tokenExpirationSeconds: kept-seconds}
  - {pinCode: hunter2xyz, activationCode: hunter2xyz, keyPEM: hunter2xyz, bearer: hunter2xyz}
  - {connectionString: hunter2xyz, mnemonic: hunter2xyz, dsn: "a:hunter2xyz@tcp(db:3306)/kept-db"}
  - {conn_str: hunter2xyz, topologyKey: kubernetes.io/kept-zone, keySize: kept-size}
  domain:
    firmware: {kernelBoot: {kernelArgs: key=hunter2xyz}}
    devices:
      gpus: [{name: gpu1, deviceName: nvidia.com/kept-gpu}]
      interfaces: [{name: kept-nic, dhcpOptions: {privateOptions: [{option: 240, value: hunter2xyz}]}}]
  readinessProbe:
    httpGet: {port: 80, httpHeaders: [{name: X-Greeting, value: hunter2xyz}]}
    exec: {command: [sh, -c, echo hunter2xyz]}
  volumes:
  - name: a
    cloudInitNoCloud: {userData: "#cloud-config\npassword: hunter2xyz", networkData: hunter2xyz}
  - name: b
    cloudInitConfigDrive: {userDataBase64: aHVudGVyMnh5eg==hunter2xyz, networkDataBase64: hunter2xyz, secretRef: {name: kept-ref}}
  - name: c
    containerDisk: {image: "https://user:hunter2xyz@registry/kept-disk"}
status:
  phase: Scheduled
  conditions:
  - {type: Synchronized, status: "False", reason: kept-reason, message: "kept-message: environment variable GREETING=hunter2xyz"}
`,
	"VirtualMachine": `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: kept-dgx, annotations: {note: hunter2xyz}}
spec:
  dataVolumeTemplates:
  - metadata: {name: kept-root}
    spec: {source: {http: {url: "https://user:hunter2xyz@images/kept-image", extraHeaders: ["Greeting: hunter2xyz"], secretExtraHeaders: [kept-headers]}}}
  template:
    metadata: {annotations: {greeting: hunter2xyz}}
    spec:
      volumes: [{name: c, cloudInitNoCloud: {userData: hunter2xyz}}]
      domain: {devices: {hostDevices: [{name: kept-nic, deviceName: mellanox.com/cx7}]}}
`,
	"PersistentVolume": `
apiVersion: v1
kind: PersistentVolume
metadata: {name: kept-volume}
spec: {mountOptions: ["username=a,pass=x hunter2xyz"]}
`,
	"PersistentVolumeClaim": `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept-root, annotations: {cdi.kubevirt.io/storage.import.endpoint: "https://u:hunter2xyz@images"}}
spec: {storageClassName: kept-class}
status: {phase: Pending, conditions: [{type: Resizing, message: "token=hunter2xyz"}]}
`,
	"DataVolume": `
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {name: kept-root, annotations: {note: hunter2xyz}}
spec:
  source:
    s3: {url: "https://u:hunter2xyz@kept-host/image", secretRef: kept-secret}
    http: {url: "https://images/kept-image?sig=hunter2xyz", extraHeaders: ["A: hunter2xyz"]}
status: {phase: kept-phase, conditions: [{type: Running, message: "401: Authorization: Basic hunter2xyz"}]}
`,
	"VirtualMachineInstanceMigration": `
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceMigration
metadata: {name: kept-migration, annotations: {note: hunter2xyz}}
spec: {vmiName: kept-dgx}
status: {phase: Failed, migrationState: {failureReason: "PASSWORD=hunter2xyz kept-reason"}}
`,
	"Pod": `
apiVersion: v1
kind: Pod
metadata: {name: kept-pod, annotations: {vault.hashicorp.com/agent-inject-template: hunter2xyz}}
spec:
  imagePullSecrets: [{name: kept-pull}]
  initContainers:
  - name: kept-init
    command: [/kept-command, hunter2xyz]
    args: ["--kept-flag", hunter2xyz, "-p=hunter2xyz"]
  containers:
  - name: compute
    env:
    - {name: KEPT, value: hunter2xyz}
    - {name: kept-name, value: "a\nhunter2xyz"}
    - {name: A, valueFrom: {secretKeyRef: {name: kept-ref, key: kept-key}}}
    lifecycle: {postStart: {exec: {command: [sh, -c, echo hunter2xyz]}}}
    startupProbe: {httpGet: {path: /health/token/hunter2xyz, port: 1}}
    readinessProbe: {httpGet: {path: /s/hunter2xyz/kept-end, port: 1}}
    livenessProbe: {httpGet: {path: "/kept-path?token=hunter2xyz", port: 1, httpHeaders: [{name: Authorization, value: Basic hunter2xyz}]}}
    resources: {requests: {nvidia.com/kept-gpu: "1"}}
  tolerations: [{key: kept-taint, operator: Equal, value: kept-value}]
  volumes:
  - {name: a, csi: {driver: kept-driver, volumeAttributes: {greeting: hunter2xyz}}}
  - {name: a, flexVolume: {driver: kept-flex, options: {greeting: hunter2xyz}}}
  - {name: b, projected: {sources: [{serviceAccountToken: {expirationSeconds: 3600, path: kept-token}}]}}
status:
  containerStatuses:
  - {name: compute, state: {waiting: {reason: kept-reason, message: "failed to pull https://user:hunter2xyz@registry/kept-image"}}}
`,
	"Event": `
apiVersion: v1
kind: Event
metadata: {name: a}
reason: kept-reason
message: "Error: kept-message --password hunter2xyz"
`,
	"ConfigMap": `
apiVersion: v1
kind: ConfigMap
metadata: {name: hook-sidecar}
data: {layout: kept-layout, image: kept-image, greeting: hunter2xyz}
binaryData: {a: hunter2xyz}
`,
	"Secret": `
apiVersion: v1
kind: Secret
metadata: {name: kept-secret}
data: {a: hunter2xyz}
stringData: {b: hunter2xyz}
`,
	"Plugin": `
apiVersion: plugin.kubevirt.io/v1alpha1
kind: Plugin
metadata: {name: kept-plugin}
spec:
  domainHooks: [{sidecar: {permittedHooks: [kept-hook], env: [{name: A, value: hunter2xyz}], args: [hunter2xyz, hunter2xyz]}}]
`,
	"KubeVirt": `
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kept-kubevirt}
spec:
  configuration: {developerConfiguration: {featureGates: [kept-gate]}, permittedHostDevices: {pciHostDevices: [{resourceName: nvidia.com/kept-gpu}]}}
  imageRegistry: u:hunter2xyz@kept-registry
  customizeComponents: {flags: {api: {v: hunter2xyz}}, patches: [{resourceName: kept-handler, patch: '[{"op": "add", "value": "hunter2xyz"}]'}]}
`,
	"MutatingAdmissionPolicy": `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: kept-policy}
spec: {mutations: [{applyConfiguration: {expression: 'Object{env: "hunter2xyz"}'}}], failurePolicy: Fail}
`,
	"ResourceClaim": `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: kept-claim}
spec:
  devices:
    requests: [{name: gpus, exactly: {deviceClassName: kept-class, selectors: [{cel: {expression: 'device.driver == "kept-driver" && device.attributes["kept-a"].password == "hunter2xyz"'}}]}}]
    config: [{opaque: {driver: kept-driver, parameters: {greeting: hunter2xyz}}}]
status:
  devices: [{driver: kept-driver, device: kept-device, data: {greeting: hunter2xyz}}]
`,
	"Node": `
apiVersion: v1
kind: Node
metadata: {name: kept-node, annotations: {csi.volume.kubernetes.io/nodeid: '{"a": "hunter2xyz"}'}, labels: {kept-zone: a}}
spec: {taints: [{key: kept-taint, value: kept-value, effect: NoSchedule}]}
status: {allocatable: {nvidia.com/kept-gpu: "8"}}
`,
}
