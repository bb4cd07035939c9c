"""The tales: what happens in a story, and in how many ways it can be said.

Each rule is a name and its alternatives, in the notation of ``grammar``. Words in braces that stand
for facts ({food}, {friend}, {fear}) are the hero's, see ``world``. What a story has remembered it
keeps: a thing forgotten {nook} is found {nook}, and the last lines come back to the first.
"""

__all__ = ["TALES"]

TALES = """
# ------------------------------------------------------------------------------- the shape of it

story:
- <meet> [{She} <heart>. |]<tale> <finish>
- <hello> <tale> <finish>

tale:
- <lost>
- <gift>
- <storm>
- <swap>
- <race>
- <feast>
- <quarrel>
- <build>
- <runaway>
- <parcel>
- <dare>
- <errand>
- <noise>
- <garden>

# ------------------------------------------------------------------------------------- beginnings

meet:
- This is about {hero=people}, who <life>.
- 3:{hero=people} <life>.

hello:
- Once there was a child called {hero=people}, who [<life>|<heart>].
- Everybody knew {hero=people}, who [<life>|<heart>].
- 2:One {sky=weathers} [morning|afternoon] {frame:sky}{hero=people} <busy>.
- It was {sky=weathers.was}{frame:sky}, and {hero=people} <busy>.
- 2:{sky=weathers.scene}{frame:sky} {hero=people} <busy>.
- On {day=days}{frame:day} {hero=people} <busy>.
- It was {day=days}{frame:day}, and {hero=people} <busy>.

life:
- lived {frame:home}[in {home} on {street}|with {pet.a} called {pet} in {home} on {street}]
- liked {food}{frame:food} better than [anything|birthdays|sleeping late|all other food together]
- could {frame:food}[eat|have eaten] {food} [three times a day|until the moon came up|in the bath]
- was known all over {street} for {frame:hobby}{hobby}
- spent {frame:hobby}[most days|whole afternoons|far too much time] {hobby}
- shared {home} with {frame:pet}{pet}, who was {pet.a}

heart:
- had {toy.a}{frame:toy}, and [took it everywhere|told it everything|kept it under the pillow|would
  not have swapped it for a castle]
- was {frame:fear}[brave about everything but|afraid of nothing except] {fear}
- went to {haunt}{frame:haunt} [every day|in all weathers|whenever there was time|to think]
- {habit} {frame:habit}whenever [things went wrong|there was trouble|a plan was needed]

busy:
- was [busy|happy] {hobby}
- had {food} for breakfast
- woke [early|late|with an idea] in {home} on {street}
- was [up|out] before [the birds|everyone else|{pet} the {pet.kind}]
- had nothing to do
- came down the stairs [two at a time|on tiptoe|singing]
- was looking for [a sock|the other boot|something to do]

# ---------------------------------------------------------------------------------- lost and found

lost:
- <lost.go> <lost.sit> <lost.gone> <lost.look> <lost.ask> <lost.found> <lost.joy>

lost.go:
- That [morning|afternoon] {she} took {her} {toy} to {place=places}.
- After [breakfast|lunch|school] {she} carried {her} {toy} all the way to {place=places}.
- "Come along," {she} said to {her} {toy}, and they set off for {place=places}.
- {hero} had never taken {her} {toy} to {place=places}. Now {she} did.

lost.sit:
- {She} [sat down|had a rest] {nook=place.nooks} and <pastime>.
- There {she} {toy.used}. Then {she} lay down {nook=place.nooks} and <pastime>.
- It was good to sit {nook=place.nooks}, and {hero} <pastime>.

pastime:
- watched [the clouds|two beetles|a snail|the swallows] go by
- ate [an apple|a pear|a handful of nuts]
- fell asleep for a while
- counted [leaves|birds|freckles] up to [ninety|a hundred|forty-one]
- sang [a song about {pet}|a song without words|the same song four times]

lost.gone:
- But at [supper|teatime|bedtime] the {toy} was gone.
- "Where is my {toy}?" {she} asked at [supper|teatime|bedtime]. Nobody knew.
- At home {she} felt in one pocket, and then in the other. No {toy}.
- Only on the stairs did {she} see that {her} hands were empty. The {toy}!

lost.look:
- {hero} looked under the [bed|table|sofa], behind the [stove|curtain|clock] and [even |]in the
  [teapot|flour|piano]. Nothing.
- {pet} the {pet.kind} helped, and found [a sock|half a biscuit|one lost mitten], which was no
  help.
- {hero} {habit}. It did not help[| much].
- {She} turned out {her} pockets, and then {her} room, and then the [kitchen|cellar|whole house].

lost.ask:
- "Think," said {friend}. "Where were you today?" "I was {place.at}," said {hero}.
- {friend} came [at once|running|with a torch]. "Where did you have it last?" "I had it
  {place.at}."
- "Things do not walk," said {friend}. "They wait. Let us go back to {place}."
- {hero} told {friend} about it. "Then it is still {place.at}," said {friend}.

lost.found:
- [Off they ran|So they went]. And there, {nook}, was the {toy}[, a little wet|, all alone|].
- {pet} ran ahead and {pet.cried}. There it was, {nook}!
- {other=people} was there before them. "Is this your {toy}?" {other.she} asked. "I found it
  {nook}."

lost.joy:
- {hero} {toy.used}.
- {hero} hugged it, and then {she} hugged {friend}.
- "I never lost it," {hero} said. "I only put it somewhere else."
- From now on it had a string.

# --------------------------------------------------------------------------------- a visit, a gift

gift:
- <gift.why> <gift.make> <gift.way> <gift.door> <gift.thanks> <gift.back>

gift.why:
- That day {friend} was ill in bed.
- {friend} had [a cold|a sore foot|the hiccups] and could not come out.
- It was {friend}'s birthday, and {hero} had forgotten it. Nearly.
- "I have not seen {friend} for [a week|three days|ages]," said {hero}.

gift.make:
- Everyone knows what {friend} likes, so {hero} made {friend.food.some}.
- {hero} wondered what to bring. {food.Text}? No, that was {her} own favourite. {friend}'s was
  {friend.food}.
- The baker [still|just] had {friend.food.some}, and nothing was better for {friend}.
- {She} stirred and [tasted|spilled], and by noon there was {friend.food.some}.

gift.way:
- On the way {she} met {other=people}, who sniffed. "{friend.food.Text}? For me?" "No," said
  {hero}, and walked faster.
- {pet} the {pet.kind} came too, and looked at the {friend.food} with one eye.
- {She} carried {friend.food.it} past {place=places} and did not taste {friend.food.it} once. Well,
  once.
- It was a long way, and the {friend.food} grew heavier at every corner.

gift.door:
- {friend} lived in {friend.home} on {friend.street}. {hero} knocked [twice|with one foot].
- At last {she} came to {friend.street}, and to {friend.home}.
- {friend.pet} the {friend.pet.kind} {friend.pet.cried} at the door of {friend.home}. That was as
  good as a bell.

gift.thanks:
- "{friend.food.Text}!" cried {friend}. "How did you know?"
- {friend} looked at the {friend.food} and felt better already.
- {friend} ate [half|most] of {friend.food.it} before saying a word. The word was "more".

gift.back:
- "Wait," said {friend}, and gave {hero} {present=things.a}. {hero} {present.used}.
- {hero} did not go home with empty hands. {friend} gave {him} {present=things.a}, and {she}
  {present.used}.

# ----------------------------------------------------------------------------------- a storm comes

storm:
- <storm.out> <storm.comes> <storm.hide> <storm.wait> <storm.after>

storm.out:
- {hero} and {pet} the {pet.kind} were at play {haunt.at}.
- {She} was {haunt.at} with {friend}, [as always|far from any roof].
- {hero} had gone to {place=places} to [pick blackberries|fetch a ladder|look for {friend}].

storm.comes:
- Then the sky [turned green|went black|fell silent]. [Rumble|Crack|Boom]!
- First there was one drop. Then there were [more than anyone could count|seven. Then a million].
- The wind took {her} hat and threw it [into a tree|over a hedge|at a cow].
- "Is that thunder, or is it your tummy?" [said|asked] somebody. It was thunder.

storm.hide:
- {other=people} waved from a shed. "In here! Quick!"
- They crept under [a cart|an old boat|a table], and {she} {habit}.
- There was no roof but {her} {toy}, and that was too small.
- {She} ran to {friend.home} on {friend.street}, where {friend} lived, and banged on the door.

storm.wait:
- They counted between flash and bang: [one|two|three], [four|five|six], [seven|nine]. It [came
  closer|went further off].
- To pass the time {hero} talked about {food}, and that [helped|made it worse].
- It was almost as bad as {fear}. But only almost.
- Somebody had {snack=foods.some}, and they shared {snack.it} in the dark.

storm.after:
- At last a bird sang. [Every|The whole] street had turned into a river, and {hero} sailed a leaf
  on it.
- And then it was over, and a rainbow stood on {street}.
- When it stopped, {pet} {pet.glad}.
- Afterwards the hat was found. A [hen|mouse|frog] was living in it.

# ------------------------------------------------------------------------------------ a long swap

swap:
- <swap.first> <swap.second> <swap.third> <swap.end>

swap.first:
- [In the attic|Under the stairs|In a ditch] {she} found {one=things.a}. {hero} {one.used}, but
  soon that was dull.
- {friend} gave {him} {one=things.a}, for which {hero} had no use at all.
- {hero} won {one=things.a} at the fair. It was not what {she} had hoped for.
- "What shall I do with {one=things.a}?" said {hero}. It had come from [an uncle|an aunt] by post.

swap.second:
- {other=people} had {two=things.a} and was tired of it. "Swap?" "Swap!" Now {hero} had the {two},
  and {other} the {one}.
- On the corner sat {other=people} with {two=things.a}. {hero} held out the {one}. They shook hands
  on it.
- "I would give {two=things.a} for that," said {other=people}. So it was done. {other} {one.used},
  and {hero} {two.used}.

swap.third:
- Then came {who=folk}. "{who.motto}," said {who}. "A {two}! I have always wanted one." And {hero}
  got {three=foods.some} for it.
- But {who=folk} needed just such a {two}, and gave {three=foods.some} for it.
- {who=folk.Text} stopped. "{who.motto}! Will you take {three=foods.some} for the {two}?" {hero}
  would.

swap.end:
- {friend} was hungry, so they ate {three.it} [on the steps|on a wall] together. {three.Text}, and
  all for {one.a}!
- And the {three}? {hero} gave {three.it} to {other}, and got the {one} back. {She} had missed it.
- {pet} ate {three.it}. So in the end {hero} had nothing, {other} had the {one}, and {who} had the
  {two}.
- At home {she} told it all: first the {one}, then the {two}, then the {three}. "And what have you
  got now?" "A tummy ache," said {hero}.

# ---------------------------------------------------------------------------------------- a race

race:
- <race.dare> <race.start> <race.middle> <race.trouble> <race.win>

race.dare:
- "I am faster than you," said {other=people}. "From {from=places} to {to=places}. The winner gets
  {prize=foods.some}."
- Every year there was a race from {from=places} to {to=places}, and the prize was
  {prize=things.a}. This year {hero} ran against {other=people}.
- {other=people} said that nobody could run from {from=places} to {to=places} before the bell rang.
  {hero} said, "I can. I bet {prize=things.a}."

race.start:
- "One, two," said {friend}, and at "two" {other} ran.
- {friend} dropped a handkerchief, and off they went from {from}.
- {who=folk.Text} counted to three. "{who.motto}," {who.she} added, and they ran.

race.middle:
- {hero} [puffed|ran with {her} mouth open]. {other} ran like [a hare|a train|water].
- At first {other} was ahead, and then {hero}, and then a dog that nobody knew.
- {pet} the {pet.kind} {pet.went} along behind, [without hurry|in no hurry at all].

race.trouble:
- Halfway, {other} tripped over [a root|a hen|{other.her} own feet]. <race.kind>
- Then {hero} lost a shoe, and ran on with one [bare foot|warm foot and one cold one].
- In the middle of the road lay {thing=things.a}. {hero} jumped over it. {other} stopped and
  {thing.used}.
- On the bridge stood {crowd=animals.a}, which {crowd.cried} and would not move. They both had to
  crawl under it.

race.kind:
- {hero} could have run on. {She} turned round and helped {other.him} up.
- {hero} ran on, and then was sorry, and ran back.

race.win:
- They came to {to} side by side, so they shared the {prize}[| and the cheering].
- {winner:hero}<race.first> {loser:other}<race.gracious>
- {winner:other}{loser:hero}It was {other} who touched {to} first. <race.gracious>

race.first:
- {hero} was the first to reach {to}, by [a nose|an inch|one breath].

race.gracious:
- {winner} got the {prize} and {loser} got a cheer.
- "Well run," said {loser}, and {winner} [blushed|bowed].
- {winner} shared the {prize} with {loser}, [because running is better in twos|for that is fair].

# ------------------------------------------------------------------------------ a secret supper

feast:
- <feast.odd> <feast.secret> <feast.alone> <feast.call> <feast.there> <feast.food>

feast.odd:
- It was {her} birthday, and nobody said a word about it.
- Something was going on. {friend} whispered with {helper=people}, and they stopped when {hero}
  came in.
- All day {friend} had no time. "I have to [buy a broom|wash a goat|sort my socks]," said {friend}.

feast.secret:
- There was flour on {friend.her} nose, too.
- Somebody had [borrowed|taken] the biggest pot. There were footprints in the flour.
- When {hero} asked why, {friend} [turned red|dropped a spoon|looked out of the window].

feast.alone:
- {hero} {habit}. Even {pet} the {pet.kind} was not to be found.
- "Nobody likes me," {hero} told {her} {toy}. The {toy} did not answer.
- So {hero} went to {haunt} by {herself}, and [threw stones|talked to a duck|thought dark
  thoughts].

feast.call:
- [At five|At six|When it got dark] there was a knock. Outside stood {messenger=folk}.
  "{messenger.motto}," said {messenger}, "and come with me."
- Then {pet} came with a note: "Come to {place=places}. Bring a spoon."
- On the doormat lay a note: "Come to {friend.street}. Be hungry."

feast.there:
- There were lanterns, and everybody shouted.
- There stood a long table, and all of {street} sat round it.
- And there was {friend} in a paper hat, grinning from ear to ear.

feast.food:
- In the middle steamed {food.some}. {hero} had to sit down, {she} was so happy.
- "We made {food.some}," said {friend}. "It was hard to keep quiet, with that smell."
- There was only one dish, but it was {food}. {She} ate until {her} ears were warm.

# ------------------------------------------------------------------------------------ a quarrel

quarrel:
- <quarrel.cause> <quarrel.words> <quarrel.apart> <quarrel.turn> <quarrel.peace>

quarrel.cause:
- {hero} and {friend} found {thing=things.a} {place=places.at}. "I saw it first," said {hero}. "I
  picked it up," said {friend}.
- {friend} had borrowed {hero}'s {thing=things} and [dropped it in the soup|sat on it|left it out
  in the rain].
- {hero} said that {friend.food} tasted of soap. {friend} said that {food} [tasted|smelled] of
  feet. And then they both wanted {thing=things.a}.

quarrel.words:
- "[Cabbage|Sausage|Wet sock]!" shouted {hero}. "[Pudding|Doorknob|Old boot]!" shouted {friend}.
- They pulled at the {thing} until it creaked.
- Neither of them would [give in|say sorry]. The {thing} lay between them.

quarrel.apart:
- {friend} went to {friend.haunt} and {hero} to {haunt}, which is as far apart as one can get.
- {hero} stamped home to {street}, and {friend} to {friend.street}.
- For [two|three|four] days they did not speak. {hero} {habit}. {friend} {friend.habit}.

quarrel.turn:
- It was dull without {friend}. Even {toy.a} is no good alone.
- {pet} the {pet.kind} would not eat, and [looked|stared] at the door.
- {who=folk.Text} looked at {her} face. "{who.motto}," said {who}. "But say sorry first."
- At night {hero} heard {fear} in every creak, and there was nobody to tell.

quarrel.peace:
- Then {hero} made {friend.food.some} and put {friend.food.it} on the step in {friend.street}.
  {friend} opened the door with {food.some}. They both laughed.
- In the morning {friend} stood at the gate with the {thing}. "You have it." "No, you." So they
  shared it.
- "Sorry," said {hero}. "Sorry," said {friend}, at the same time. {hero} {thing.used}, and then it
  was {friend}'s turn.

# ------------------------------------------------------------------------------ making something

build:
- <build.plan> <build.first> <build.second> <build.work> <build.test> <build.after>

build.plan:
- "Let us build {craft=crafts.a}," said {hero} to {friend}.
- {hero} had drawn a plan of {craft=crafts.a} on the back of a bill. {friend} turned it round and
  nodded.
- {friend} had read how to make {craft=crafts.a}. It looked easy.

build.first:
- They needed [wood|planks|nails], and {other=people} had some.
- {who=folk.Text} lent them a hammer. "{who.motto}," said {who}.
- From the shed they took [nine nails|a rope|two wheels|a barrel] and {part=things.a}.

build.second:
- {friend} brought {piece=things.a}, which had to go in somewhere.
- It needed a name, so they called it the [Flying|Jolly|Brave] {pet}.
- In the middle of it all they stopped for {food}.

build.work:
- {hero} sawed and {friend} hammered, mostly on {friend.her} thumb.
- {pet} the {pet.kind} {pet.naughty}, so they had to start again.
- By [noon|dusk|Friday] it stood there, a bit crooked, and it smelled of glue.

build.test:
- They took it to {place=places}. The {craft} {craft.well}.
- {place=places} was the place to try it. The {craft} {craft.badly}.

build.after:
- "The next one will be bigger," said {friend}.
- "It is the best {craft} on {street}," said {hero}, and that was true, for there was no other.
- {pet} moved in and would not come out.
- They laughed so much that {other2=people} came to see. By evening there was a queue.

# ------------------------------------------------------------------------------ the pet runs off

runaway:
- <runaway.gone> <runaway.call> <runaway.trace> <runaway.ask> <runaway.there> <runaway.home>

runaway.gone:
- The basket by the stove was empty. {pet} the {pet.kind} had gone.
- "Where is {pet}?" [asked|cried] {hero}. There was no {pet.kind} in the house, and none in the
  yard.
- {pet} the {pet.kind} {pet.naughty}. {hero} shouted, and {pet} ran away.

runaway.call:
- {She} called "{pet}!" up {street} and down {street}. No "{pet.sound}" came back.
- {hero} {habit}, and then {she} went to look.
- {friend} took the left side of the road, and {hero} took the right.

runaway.trace:
- There were [tracks|small tracks|marks] in the mud, and they led to {place=places}.
- A trail of crumbs led towards {place=places}. They were crumbs of {food}.
- "I saw {pet.a} with a [sausage|hat|sock]," said {other=people}. "It was going to {place=places}."

runaway.ask:
- {who=folk.Text} was standing {place.at}. "{who.motto}," said {who}, and pointed.
- {hero} stood still and listened. "{pet.sound}," said something.
- It was getting dark {place.at}, and {she} thought of {fear}. But {she} went on.

runaway.there:
- And {nook=place.nooks} sat {pet}, with {new=animals.a} for company.
- And there, {nook=place.nooks}, was {pet}, fast asleep on {thing=things.a}.
- {pet} was {nook=place.nooks}, and {pet.cried} as if nothing had happened.

runaway.home:
- {hero} was too glad to be cross. They {pet.went} home together.
- "Never do that again," said {hero}. {pet} {pet.glad}.
- That evening {pet} got {food} too, in {pet.her} own dish.

# ------------------------------------------------------------------------------- the wrong parcel

parcel:
- <parcel.comes> <parcel.guess> <parcel.way> <parcel.door> <parcel.open> <parcel.thanks>

parcel.comes:
- A parcel came, but it was not for {hero}. On it stood the name of {other=people}.
- There was a parcel on the step. "For {other=people}," {hero} read. The postman had been dreaming
  again.
- A cart went by too fast, and a parcel fell off. It was for {other=people}.

parcel.guess:
- It [rattled|ticked|smelled of soap|was soft at one end]. {hero} {habit}.
- "Open it," said {friend}. "No," said {hero}, though {her} fingers itched.
- What could it be? {hero} hoped for {food}. {friend} hoped for {wish=things.a}.

parcel.way:
- {hero} tied it to {pet} the {pet.kind}, who {pet.went} ahead.
- {She} carried it {place=places.at} and past {place2=places}, and changed arms [six|eight|ten]
  times.
- {who=folk.Text} knew the way. "{who.motto}," said {who}. "{other} lives on {other.street}."

parcel.door:
- {other} lived in {other.home} on {other.street}. {hero} rang.
- On {other.street} stood {other.home}. "Is this {other}?" "It is," said {other}.
- It was {other.pet} who came to the door, {other.pet.a}. And then came {other}.

parcel.open:
- In the parcel was {gift=things.a}. {other} {gift.used}.
- There was paper, and more paper, and then {gift=things.a}. "From my aunt," said {other}.
- {other} pulled the string. Out came {gift=things.a}, and a card: "Do not eat this."

parcel.thanks:
- "Stay for supper," said {other}. "There is {other.food}." So {hero} stayed.
- {other} gave {hero} {other.food.some} for the way home. {hero} shared {other.food.it} with
  {friend}.
- After that {hero} and {other} wrote to each other every {day=days}, and sent parcels on purpose.

# ------------------------------------------------------------------------------------ being brave

dare:
- <dare.need> <dare.fear> <dare.step> <dare.deep> <dare.done>

dare.need:
- One evening {pet} the {pet.kind} was stuck {place=places.at}, and somebody had to go.
- {friend}'s {friend.toy} had been left {place=places.at}, and it was getting dark.
- Nobody dared to stay {place=places.at} until midnight. That was what {other=people} said.

dare.fear:
- But {hero} was afraid of {fear}, and there was no getting round it.
- "I would go," said {hero}, "if it were not for {fear}."
- Now, {place} is [no place|the wrong place] for a child who is afraid of {fear}.

dare.step:
- {hero} {habit}. Then {she} took [one step|a deep breath|{friend} by the hand].
- {friend} lent {him} {charm=things.a}. "Hold this," {friend.she} said. "It always works."
- {She} put {her} {toy} under one arm and [shut one eye|began to sing|went].

dare.deep:
- Something went [crack|hoo|plop|snap]. {hero} stood [still|as still as a post].
- It was [cold|dark|very quiet] {nook=place.nooks}. {She} thought hard about {food}.
- Something moved {nook=place.nooks}. It was only {ghost=animals.a}, and it was more afraid than
  {hero} was.

dare.done:
- And then it was done, and it had taken [four|five|six] minutes. {friend} thought it was [an
  hour|a year].
- "Were you afraid?" asked {friend}. "Only [before|at the start|in the middle]," said {hero}.
- {She} came back with [leaves|straw|cobwebs] in {her} hair. "{fear.Text}?" {she} said. "Pooh."

# ------------------------------------------------------------------------------ three things to buy

errand:
- <errand.list> <errand.way> <errand.shop> <errand.forget> <errand.end>

errand.list:
- "Bring {one=things.a}, {two=things.a} and {three=foods.some}," said {sender=folk}. "Can you keep
  that in your head?"
- {sender=folk.Text} sent {hero} to the shop for {one=things.a}, {two=things.a} and
  {three=foods.some}.
- There were three things to buy for {sender=folk}: {one=things.a}, {two=things.a} and
  {three=foods.some}. {hero} knew the list by heart.

errand.way:
- "The {one}, the {two}, the {three}," {hero} said at every step.
- {hero} made a song of it: {one.a}, {two.a}, {three.some}, tra-la.
- At the corner {hero} met {other=people}, who talked for [an hour|ages] about {other.hobby}.
- {pet} the {pet.kind} came along to carry the basket.

errand.shop:
- In the shop {she} said, "{one.a}, please, and {two.a}, and ..." And what?
- The {two} was [easy|there]. The {one} was on the [top|bottom] shelf. But the third thing was gone
  from {her} head.
- "What will it be?" {hero} opened {her} mouth, and only the {one} and the {two} came out.

errand.forget:
- {hero} {habit}. Was it {wrong=things.a}? Was it {food}?
- "{wrong=foods.Text}?" asked the shopkeeper. "{wrong2=foods.Text}?" It was neither of the two.
- {pet} [sniffed|looked] at a shelf, and then at {him}, and then at the shelf again.

errand.end:
- Then a smell came round the corner. The {three}! {hero} ran all the way to {sender} with
  everything.
- "The {three}!" {she} cried, so loudly that a jar fell over. Everything was there.
- So {hero} came back without the {three}. "{sender.motto}," said {sender}, and went for {three.it}
  {sender.herself}.

# ----------------------------------------------------------------------------- a noise in the night

noise:
- <noise.hear> <noise.think> <noise.go> <noise.search> <noise.find> <noise.after>

noise.hear:
- That night there was a noise. "{beast=animals.sound}!" And again: "{beast.sound}!"
- In the middle of the night {hero} sat up in bed. "{beast=animals.sound}," said something in the
  dark.
- {friend} had come to stay the night. They were almost asleep when something went
  "{beast=animals.sound}".

noise.think:
- It was not the wind, and it was not {pet} the {pet.kind}, who [says|only ever says]
  "{pet.sound}".
- {hero} {habit}. {fear.Text}, perhaps?
- {She} pulled the blanket up to {her} nose. But the noise [went on|came closer].

noise.go:
- {She} took {her} {toy}, just in case, and went down the stairs.
- "Who is there?" {hero} [called|whispered]. Nobody answered.
- {hero} put on [one slipper|{her} boots|two coats] and lit a candle.

noise.search:
- It was not in the [kitchen|cupboard], and it was not [under the stairs|in the cellar].
- The {noun=things} was in its place. The clock ticked. The tap dripped.
- The stairs creaked: one, two, three. {She} jumped over the fourth.

noise.find:
- And there, [behind the stove|on the doormat|in the washtub], sat {beast.a} with wet feet.
- {She} opened the back door. In the moonlight stood {beast.a}. "{beast.sound}," it {beast.cried}.
- It came from the [hall|bathroom|larder]. It was {beast.a}, with its head in {stuck=things.a}.

noise.after:
- {hero} gave it [a bit of|some of the] {food}, and it [slept|stayed] by the fire until morning.
- In the morning they found out that it belonged to {owner=people}, on {owner.street}.
- "You might have knocked," said {hero}, and went back to bed. The {beast} went, too.

# --------------------------------------------------------------------------------- a seed is sown

garden:
- <garden.sow> <garden.wait> <garden.more> <garden.grow> <garden.end>

garden.sow:
- {hero} had one {crop=plants} seed. {She} put it into the ground {place=places.at} and watered it.
- "Plant this," said {friend}, and gave {him} a {crop=plants} seed. {hero} dug a hole
  {place=places.at}.
- In place of a penny, {other=people} paid {him} back with a {crop=plants} seed. {hero} sowed it
  {place=places.at}.

garden.wait:
- On {first=days} there was nothing to see. On {first.next} there was nothing. On {first.next.next}
  there was a slug.
- {hero} went to look every [day|morning], and {pet} the {pet.kind} went, too.
- It takes time, people said. {hero} {habit}.

garden.more:
- {She} [read|sang|talked] to it, [mostly|and told it] about {hobby}.
- To keep off the birds {she} put {guard=things.a} on a stick beside it.
- {who=folk.Text} looked over the fence. "{who.motto}," said {who}, which was no help.

garden.grow:
- Then it rained, and up it came. By August {hero} had {crop.grown}.
- And one fine day there it was: {crop.grown}!
- Something green came up, and then something round. It was {crop.grown}.

garden.end:
- {friend} helped to carry it home, and they were out of breath for an hour.
- It won a prize, which was {prize=things.a}. {hero} {prize.used}.
- Everybody on {street} got a piece, even {guest=people}, who does not care for {crop} at all.
- {She} could not eat it. It had become a friend. So {she} ate {food} and let it stand.

# ----------------------------------------------------------------------------------- the last lines

finish:
- 4:{frame.close}
- 2:<close.supper>
- <close.bed>
- <close.moral>

close.supper:
- For supper there was {food}, and [nobody|not even {pet}] left a crumb.
- Later {she} wrote it all down, and drew {pet} the {pet.kind} in the margin.

close.bed:
- In bed {she} told {her} {toy} all about it. [Some of it was true.|Twice.|It was a long story.]
- Then {hero} slept, and dreamed of {dream=animals.a} that could [knit|sing|count].

close.moral:
- "Same again tomorrow?" asked {friend}. "[Maybe|No|Yes]," said {hero}.
- {friend} still talks about it.
- And if you do not believe it, ask {friend}, who lives in {friend.home} on {friend.street}.

close.weather:
- By then {sky.end}.
- When {hero} looked out of the window, {sky.end}.

close.day:
- All that was on {day}. On {day.next} nothing happened at all.
- And {day.next} came, as it does after {day}.

close.home:
- On {street} the lamps went out, one after another.
- There is room for many stories in {home}.

close.food:
- You can guess what {she} had for supper. Yes, {food}.
- And {food} had never tasted so good.

close.hobby:
- The next day {hero} went back to {hobby}.
- "And now," said {hero}, "back to {hobby}."

close.pet:
- {pet} slept at {her} feet that night, and snored like a [saw|bear|small train].
- And {pet}? {pet.She} {pet.glad}.

close.toy:
- That night the {toy} lay beside {her} bed, where it belongs.
- {Her} {toy} had seen it all, and said nothing.

close.fear:
- {hero} is still afraid of {fear}. But a little less.
- As for {fear}, that is another story.

close.haunt:
- The next morning {she} was {haunt.at} again, as if nothing had happened.
- {haunt} is still there, if you want to see where {hero} likes to sit.

close.habit:
- {She} {habit} [once more|one last time], just to be sure.
- And nobody {habit} that night, not even {hero}.
"""
