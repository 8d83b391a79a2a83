BEGIN TRANSACTION;
CREATE TABLE audit (
	id INTEGER NOT NULL, 
	incident VARCHAR(200) NOT NULL, 
	at INTEGER NOT NULL, 
	kind VARCHAR(40) NOT NULL, 
	actor VARCHAR(200) NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(incident) REFERENCES incidents (id)
);
INSERT INTO "audit" VALUES(1,'a1',1772366400000000,'opened','monitor','');
CREATE TABLE generation (
	id INTEGER NOT NULL, 
	commits BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "generation" VALUES(1,1);
CREATE TABLE incidents (
	id VARCHAR(200) NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	method VARCHAR(20) NOT NULL, 
	outcome VARCHAR(200) NOT NULL, 
	opened_at INTEGER NOT NULL, 
	resolved_at INTEGER, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "incidents" VALUES('a1','open','excess','pay',1772366400000000,NULL,'{"causes":[{"airline":["AC"]}],"finding":{"began":"2026-03-01T11:30:00Z","cause":{"airline":["AC"]},"chain":[{},{"airline":["AC"]}],"codes":["E17"],"ended":false,"expected":4.25,"fresh":true,"horizon_seconds":3600.0,"method":"excess","observed":57.0,"outcome":"pay","p_value":1e-12,"path":["airline=AC","pay"],"q_value":0.003,"rate_before":0.007,"rate_now":0.093,"rows":612,"runners_up":[{"cause":{"office":["BKK"]},"score":12.0}],"score":31.5},"id":"a1","last_seen_at":"2026-03-01T12:00:00Z","latest":{"began":"2026-03-01T11:30:00Z","cause":{"airline":["AC"]},"chain":[{},{"airline":["AC"]}],"codes":["E17"],"ended":false,"expected":4.25,"fresh":true,"horizon_seconds":3600.0,"method":"excess","observed":57.0,"outcome":"pay","p_value":1e-12,"path":["airline=AC","pay"],"q_value":0.003,"rate_before":0.007,"rate_now":0.093,"rows":612,"runners_up":[{"cause":{"office":["BKK"]},"score":12.0}],"score":31.5},"opened_at":"2026-03-01T12:00:00Z","resolved_at":null,"state":"open","told_excess":0.0,"updated_at":"2026-03-01T12:00:00Z","worsened_at":[]}');
CREATE TABLE labels (
	incident VARCHAR(200) NOT NULL, 
	verdict VARCHAR(20) NOT NULL, 
	PRIMARY KEY (incident), 
	FOREIGN KEY(incident) REFERENCES incidents (id)
);
CREATE TABLE outbox (
	id INTEGER NOT NULL, 
	notifier VARCHAR(200) NOT NULL, 
	incident VARCHAR(200) NOT NULL, 
	change VARCHAR(20) NOT NULL, 
	at INTEGER NOT NULL, 
	document TEXT NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	attempts INTEGER NOT NULL, 
	next_at INTEGER NOT NULL, 
	error TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (notifier, incident, change, at), 
	FOREIGN KEY(incident) REFERENCES incidents (id)
);
INSERT INTO "outbox" VALUES(1,'log','a1','opened',1772366400000000,'{"at":"2026-03-01T12:00:00Z","change":"opened","incident":{"causes":[{"airline":["AC"]}],"finding":{"began":"2026-03-01T11:30:00Z","cause":{"airline":["AC"]},"chain":[{},{"airline":["AC"]}],"codes":["E17"],"ended":false,"expected":4.25,"fresh":true,"horizon_seconds":3600.0,"method":"excess","observed":57.0,"outcome":"pay","p_value":1e-12,"path":["airline=AC","pay"],"q_value":0.003,"rate_before":0.007,"rate_now":0.093,"rows":612,"runners_up":[{"cause":{"office":["BKK"]},"score":12.0}],"score":31.5},"id":"a1","last_seen_at":"2026-03-01T12:00:00Z","latest":{"began":"2026-03-01T11:30:00Z","cause":{"airline":["AC"]},"chain":[{},{"airline":["AC"]}],"codes":["E17"],"ended":false,"expected":4.25,"fresh":true,"horizon_seconds":3600.0,"method":"excess","observed":57.0,"outcome":"pay","p_value":1e-12,"path":["airline=AC","pay"],"q_value":0.003,"rate_before":0.007,"rate_now":0.093,"rows":612,"runners_up":[{"cause":{"office":["BKK"]},"score":12.0}],"score":31.5},"opened_at":"2026-03-01T12:00:00Z","resolved_at":null,"state":"open","told_excess":0.0,"updated_at":"2026-03-01T12:00:00Z","worsened_at":[]},"link":null,"version":1}','pending',0,0,'');
CREATE TABLE position (
	id INTEGER NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "position" VALUES(1,'{"at":1}');
CREATE TABLE rejected_counts (
	reason VARCHAR(200) NOT NULL, 
	count BIGINT NOT NULL, 
	PRIMARY KEY (reason)
);
CREATE TABLE rejected_records (
	id INTEGER NOT NULL, 
	reason VARCHAR(200) NOT NULL, 
	place TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	count BIGINT NOT NULL, 
	raw BLOB NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE schema_version (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "schema_version" VALUES(1);
INSERT INTO "schema_version" VALUES(2);
CREATE TABLE slices (
	start INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (start)
);
INSERT INTO "slices" VALUES(1772366400000000,X'726F7773');
CREATE TABLE state (
	name VARCHAR(200) NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (name)
);
CREATE INDEX incidents_newest ON incidents (opened_at, id);
CREATE INDEX incidents_state ON incidents (state);
CREATE INDEX rejected_reason ON rejected_records (reason);
CREATE INDEX audit_incident ON audit (incident);
CREATE INDEX outbox_due ON outbox (status, notifier, incident, id);
COMMIT;
