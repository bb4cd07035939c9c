"""The tales: what happens in a story, and in how many ways it can be said.

Each rule is a name and its alternatives, in the notation of `grammar`. Words in braces that stand
for facts ({food}, {friend}, {fear}) are the hero's, see `world`. What a story has remembered it
keeps: a thing forgotten {nook} is found {nook}, and the last lines come back to the first. Where
things change hands, a name such as {one.holder:other} says so, and nothing is heard of it.
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
- [This|Our story] is about {hero=people}, who <life>.
- 6:{hero=people} <life>.
- Once there was a child called {hero=people}, who <life>.

hello:
- [Everybody knew|Nobody forgets|You may know|You would like] {hero=people}, who [<life>|<heart>].
- 3:[One|Late one|Early one] {sky=weathers}
  [morning|afternoon|evening|Monday|Tuesday|Saturday|Sunday] {frame:sky}{hero=people} <busy>.
- It was {sky=weathers.was}{frame:sky}[, and| again, and| in the whole county, and] {hero=people}
  <busy>.
- 3:{sky=weathers.scene}{frame:sky} {hero=people} <busy>.
- On {day=days}{frame:day}[ at <hour>| after breakfast| before noon| in spring| in May| in June| in
  October|] {hero=people} <busy>.
- It was {day=days}{frame:day}, [<hour> o'clock|early|nearly noon|late], and {hero=people} <busy>.

hour:
- one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve

life:
- lived {frame:home}[in {home} on {street}|with {pet.a} called {pet} in {home} on {street}]
- [liked|loved] {food}{frame:food} [better|more] than [anything|birthdays|sleeping
  late|holidays|the sea|Sundays|all the rest|swimming|new boots|gold]
- could {frame:food}[eat|have eaten|have lived on] {food} [three times a day|until the moon came
  up|in the bath|all week|on a roof|for breakfast, noon and night|in {her} sleep]
- was known [all over|up and down|from end to end of] {street} for {frame:hobby}{hobby}
- spent {frame:hobby}[most days|whole afternoons|far too much time|the summer|every Sunday|the best
  hours of the day] {hobby}
- shared {home} with {frame:pet}{pet}, who was {pet.a}

heart:
- had {toy.a}{frame:toy}, and [took it everywhere|told it everything|kept it under the pillow|would
  not have sold it for a castle|polished it on Sundays|would not lend it to a king|slept beside
  it|called it Henry]
- was {frame:fear}[brave about everything but|afraid of nothing except|a little afraid of|not at
  all fond of|no friend of] {fear}
- went to {haunt}{frame:haunt} [every day|in all weathers|whenever there was time|to think|to be
  alone|on Sundays|to talk to the birds|after school|in secret]
- {habit} {frame:habit}whenever [things went wrong|there was trouble|a plan was needed|somebody
  shouted|nobody was looking|school was over]
- told {friend} [everything|every secret|all {her} dreams|each thing twice|most
  things]{frame:friend}, [even|mostly] about {hobby}

busy:
- was [busy|happy|tired of|in the yard,|in the attic,|on the roof,|in the kitchen,|on the
  stairs,|under the table,] {hobby}
- had {food} for breakfast
- [woke|was woken] [early|late|with an idea|by a fly|by a noise|too soon|from a good dream] in
  {home} on {street}
- was [up|out|awake|dressed|on the road] before [the birds|everyone else|{pet} the {pet.kind}|the
  baker|the sun]
- had nothing to do[ but look out of the window| at all|, and did it well]
- came down the stairs [two at a time|on tiptoe|singing|backwards|in one boot|with a yawn|on a
  tray]
- was looking for [a sock|the other boot|something to do|{pet} the {pet.kind}|a pencil|the jam|a
  dry hat]
- was [drawing|dreaming of|trying to draw|whistling to] {pet} the {pet.kind}
- had [mislaid|found|lost|borrowed|mended] {odd=odds}

# ------------------------------------------------------------------------------- along the way

She:
- {She}|{hero}

said:
- 6:said
- whispered|called|muttered|laughed|cried|announced|declared

asked:
- 4:asked
- whispered|cried|wanted to know|called

how:
- softly|slowly|gravely|kindly|sadly|sleepily|proudly|crossly|cheerfully|politely
- firmly|bravely|dreamily|hopefully|carefully|shyly|calmly|solemnly|hoarsely|wisely|gently|at last

beast:
- <bird>|cat|dog|hen|cow|sheep|goat|horse|frog|hedgehog|squirrel|beetle|fly|snail|fox

bird:
- blackbird|robin|thrush|wren|starling|sparrow|jackdaw|cuckoo|crow|pigeon|swallow|finch|gull|rook

mood:
- fat|thin|sleepy|curious|wet|hungry|shy|proud|polite|muddy|spotted|grey|brown|nervous|friendly
- tired|jolly|rude|surprised|woolly|freckled|round|serious|lame|cross|lonely|young|very small|big

look:
- big|small|heavy|crooked|rusty|wet|dusty|broken|squeaky|blue|green|red|white|yellow|narrow|wide
- tall|wobbly|long|short|painted|mossy|warm|cold|lopsided|brand-new|second-hand|grey|black|stone

spot:
- gate|chimney|fence|roof|post|bush|wall|pump|bench|barrel|ladder|haystack|cart|lamp-post|stump

aside:
- A <mood> <bird> [sang|sat|slept|watched|complained|hopped about|whistled|preened] on [the|a]
  <look> <spot>.
- Somewhere a [door|window|gate|clock|bell|drum|saw|piano|kettle] [could be heard|began and stopped
  again|would not be quiet|slammed|creaked|sounded].
- High up, the <look> clock of the [church|school|station|mill|town hall] struck <hour>.
- [The air|The whole street|Everything] smelled of {smell=foods}.
- Just then {passer=people} [went|rode|ran|strolled|came] by with {passer.pet} the
  {passer.pet.kind}[, and waved|, and nodded|, and did not look up|, and sneezed|].
- Not far off, {passer=people} was [sitting|standing|sleeping] on a <look> <spot>, [eating
  {passer.food}|busy {passer.hobby}|and had {passer.toy.a}].
- All this time {passer=people}, {passer2=people} and {passer3=people} [looked on|waved|went past,
  arm in arm|were fishing for {odd=odds}|sang in three parts].
- Along [came|rattled|rolled|wobbled|crept] a <look> [cart|van|bus|bicycle|tractor] with a load of
  [hay|bricks|apples|chairs|nuns|barrels|bells|cabbages|brooms|mirrors|sheep|coal].
- In {her} [left|right|inside|secret|best] pocket {she} [had|found|felt] {o1=odds}, {o2=odds} and
  {o3=odds}.
- On the <look> [ground|wall|path|gate|road] lay {o1=odds}. [Nobody wanted it.|It stayed
  there.|{hero} [left it|pocketed it|stepped over it|kicked it|saluted].]
- [Two|Three|Four|Five|Six|Seven] <mood>
  [snails|ducks|geese|hens|cats|boys|girls|nuns|sheep|sailors|cows] [crossed the road|went by in a
  row|looked on|were in no hurry|stood in the way].
- From a <look> [window|door|cellar|shed|tower] came [music|laughter|smoke|a song|a sneeze|a smell
  of {smell=foods}].

# ---------------------------------------------------------------------------------- lost and found

lost:
- <lost.go>{toy.holder:hero} <lost.sit>{toy.holder:nook} [3:<aside> |2:]<lost.gone> <lost.look>
  [3:<aside> |2:]<lost.ask> <lost.found>{toy.holder:hero} <lost.joy>

lost.go:
- That [day|same day] <She> [took|carried|brought|pulled] {her} {toy} [to|as far as|all the way to]
  {place=places}.
- [After|Before] [breakfast|lunch|school|church|a short nap] <She> carried {her} {toy} [to|as far
  as|all the way to] {place=places}.
- "[Come along|Off we go|Time for some air|Today is the day]," {she} <said> to {her} {toy}, and
  they [set off|set out|went|marched] for {place=places}.
- {hero} had never [taken|shown] {her} {toy} to {place=places}. [Now|At last|Today] {she} did.

lost.sit:
- <She> [sat down|had a rest|took off {her} boots|settled down] {nook=place.nooks} and <pastime>.
- There {she} {toy.used}. Then {she} [lay|sat] down {nook=place.nooks} and <pastime>.
- It was [good|pleasant|cool|dry|quiet] to sit {nook=place.nooks}, and {hero} <pastime>.

pastime:
- watched a <mood> <beast> [go by|eat its dinner|look for something|climb a stalk|fall asleep|wash]
- ate a <look> [apple|pear|plum|potato|bun|carrot|cherry] [without hurry|in nine bites|with {her}
  eyes shut|down to the stalk]
- [fell asleep|dozed|dreamed|thought of {friend}|whistled] [for a while|for an hour|until the
  shadows grew long|until {her} nose was cold]
- counted [leaves|birds|freckles|clouds|beetles|bells|ships] up to {count=numbers}
- sang [a song about {pet}|a song without words|a song with {count=numbers} verses|a sea
  song|everything {she} knew]

lost.gone:
- But [at|before|after] [supper|teatime|bedtime|prayers|dinner] the {toy} was gone.
- "Where is my {toy}?" {she} <asked> at [supper|teatime|bedtime|dinner]. Nobody [knew|answered|had
  seen it].
- At home {she} felt in one pocket, and [then|after that] in the other. {odd=odds.Text}, but no
  {toy}.
- Only [on the stairs|at the door|in the bath|in bed|on the bridge|at the gate] did {she}
  [see|notice] that {her} hands were empty. The {toy}!

lost.look:
- <She> looked [under|behind|in|on top of] the [bed|table|sofa|wardrobe|cupboard], behind the
  [stove|curtain|clock|door|mirror] and [even|at last|finally] in the
  [teapot|flour|piano|soup|oven|coal|hen house]. [Nothing|Not a trace|There was only
  {odd=odds}|Only dust].
- {pet} the {pet.kind} helped, and found {odd=odds}, which was no [help|use|good].
- <She> {habit}. It did not [help|bring it back|change a thing].
- <She> turned out {her} pockets, and then {her} [room|drawers|bed], and then the
  [kitchen|cellar|attic|whole house|garden shed]. {She} found {o1=odds} and {o2=odds}.

lost.ask:
- "[Think|Try to think|Sit down|Shut your eyes and think]," <said> {friend}[ <how>|]. "Where were
  you today?" "I was {place.at}," <said> {hero}[ <how>|].
- {friend} came [at once|running|with a torch|in slippers|as fast as the wind]. "Where did you have
  it last?" "I had it {place.at}."
- "Things do not [walk|swim|fly]," <said> {friend}[ <how>|]. "They wait. [Let us go|We must
  go|Come] back to {place}."
- {hero} told {friend} [about it|the whole story|everything]. "Then it is still {place.at}," <said>
  {friend}[ <how>|].

lost.found:
- [Off they ran|So they went|They did not wait for morning|They took a lamp and went]. And
  [there|sure enough], {nook}, [was|lay|waited] the {toy}[, a little wet|, all alone|, with a snail
  on it|, as good as new|, cold as a stone|].
- {pet} ran ahead and {pet.cried}. [There|And there] it was, {nook}!
- Somebody was there [before them|already]: {other=people}. "Is this your {toy}?" {other.she}
  <asked>[ <how>|]. "I found it {nook}."

lost.joy:
- {hero} {toy.used}.
- {hero} hugged it, and then {she} hugged {friend}[ as well|, and then {pet}|].
- "I never lost it," {hero} <said>. "I only [put it somewhere else|let it rest|hid it from
  myself|wanted to see if you would look]."
- From [now on|then on|that day on] it had a [string|bell|label|bodyguard|ribbon] [round its
  neck|on it|tied to it].

# --------------------------------------------------------------------------------- a visit, a gift

gift:
- <gift.why> <gift.make>{dish.holder:hero} [3:<aside> |2:]<gift.way> <gift.door>
  [3:<aside> |2:]<gift.thanks>{dish.holder:friend} <gift.back>{present.holder:hero}

gift.why:
- All that [day|week] {friend} was [ill in bed|in bed with a cough|at home with a sore foot|covered
  in spots].
- {friend} had [a cold|a sore foot|the hiccups|the measles|toothache|a bad mood|no visitors] and
  could not come out.
- It was {friend}'s birthday, and {hero} had forgotten it. [Nearly|Almost|But not quite].
- "I have not seen {friend} for [a week|three days|ages|a month|{count=numbers} hours]," <said>
  {hero}[ <how>|]. "[That is too long|Something must be done|I shall go today|I miss that laugh]."

gift.make:
- [Everyone knows|{pet} knows|All of {street} knows] what {friend} likes, so {hero} made
  {friend.food.some}.
- <She> wondered what to bring. {food.Text}? No, that was {her} own favourite. {friend}'s was
  {friend.food}.
- The [baker|shop on the corner|market] [still|just] had {friend.food.some}, and nothing [was|is]
  better for {friend}.
- <She> stirred and [tasted|spilled|sang|sneezed|read the recipe again], and [by noon|in an hour|by
  <hour>|with luck] there was {friend.food.some}.
- <She> [sold|gave away|swapped] {odd=odds} and {o2=odds}, and [bought|got] {friend.food.some} for
  [them|that|{friend}].

gift.way:
- On the way {she} met {other=people}, who sniffed. "{friend.food.Text}? For me?" "[Never|Not
  today|Not for you|Certainly not]," <said> {hero}, and [walked faster|walked on|ran|hid
  {friend.food.it}].
- {pet} the {pet.kind} came too, and looked at the {friend.food} [with one eye|longingly|all the
  way|at every step].
- {She} carried {friend.food.it} past {place=places} and did not taste {friend.food.it} once. Well,
  [once|twice|just the edge|a little].
- It was a long way, and the {friend.food} grew [heavier|colder|smaller|more tempting] at every
  [corner|step|lamp-post|gate].
- Then a <mood> <beast> [followed|chased|eyed] {him} all the way to {place=places}, because of the
  smell.

gift.door:
- {friend} lived in {friend.home} on {friend.street}. {hero} [knocked|rang|kicked the
  door|whistled] [twice|once|three times|softly|politely].
- [At last|Then|At <hour>] {she} came to {friend.street}, and to {friend.home}.
- {friend.pet} the {friend.pet.kind} {friend.pet.cried} at the door of {friend.home}. That was as
  good as a bell.

gift.thanks:
- "{friend.food.Text}!" cried {friend}. "[How did you know|Am I dreaming|For me|All of it]?"
- {friend} [looked at|smelled|saw] the {friend.food} and [felt better already|turned pink|sat up
  straight|was well again|forgot everything else].
- {friend} ate [half|most|all|a good deal] of {friend.food.it} before saying a word. The word was
  "[more|thanks|mmm|goodness|hurrah]".

gift.back:
- "[Wait|One moment|Not so fast]," <said> {friend}, and gave {hero} {present=things.a}. {hero}
  {present.used}.
- {hero} did not go home with empty hands. {friend} gave {him} {present=things.a}, and {she}
  {present.used}.
- They [played|talked|laughed|sat] until <hour>, and {friend} [found|dug out|lent {him}]
  {present=things.a}. {hero} {present.used}.

# ----------------------------------------------------------------------------------- a storm comes

storm:
- <storm.out> [3:<aside> |2:]<storm.comes> <storm.hide> [3:<aside> |2:]<storm.wait> <storm.after>

storm.out:
- {hero} and {pet} the {pet.kind} were [at play|looking for snails|doing nothing|having a
  picnic|chasing each other|flying paper birds] {haunt.at}.
- {hero} was {haunt.at} with {friend}, [as always|far from any roof|eating plums|looking for
  {odd=odds}|up to no good].
- {hero} had gone to {place=places} to [pick|look for|sell|count|draw]
  [blackberries|mushrooms|feathers|acorns|shells|daisies|nuts].

storm.comes:
- Then the [sky|air|light] [turned green|went black|turned yellow|went strange|grew thick].
  [Rumble|Crack|Boom|Bang|Grumble]!
- First there was one drop. Then there were [more than anyone could count|{count=numbers}|a dozen].
  Then [it poured|the whole sky fell down|there was no end to it|it came down in buckets].
- The wind [took|snatched|stole] {her} hat and threw it [into|over|onto] a <look>
  [tree|hedge|roof|chimney|scarecrow|well|cart].
- "Is that thunder, or is it your tummy?" [said|asked] [somebody|a small voice|{her} left ear]. It
  was thunder.

storm.hide:
- {other=people} waved from a <look> [shed|barn|cave|bathing hut|hen house|tunnel]. "In here!
  [Quick|Hurry|Mind the step|There is room]!"
- [They|All of them] crept under a <look> [cart|boat|table|bridge|tarpaulin|haystack|umbrella], and
  {hero} {habit}.
- There was no roof but {her} {toy}, and that was [too small|no help|not much|full of holes].
- <She> ran to {friend.home} on {friend.street}, where {friend} lived, and [banged on|fell
  through|hammered at|rang at] the door.

storm.wait:
- They counted between flash and bang: [one|two|three], [four|five|six], [seven|nine|ten]. It [came
  closer|went further off|was right above them|turned round].
- To pass the time {hero} talked about {food}, and that [helped|made it worse|made everybody
  hungry].
- It was almost as bad as {fear}. But [only|not quite] almost.
- Somebody had {snack=foods.some}, and they shared {snack.it} in the [dark|straw|cold|lightning].
- They played a game: everyone had to name a thing. "{o1=odds.Text}." "{o2=odds.Text}."
  "{o3=odds.Text}." [Nobody won|{hero} won|The thunder won].

storm.after:
- [At last|In the end|After an hour|At <hour>] a bird sang. The whole street had turned into a
  [river|lake|brook|mirror], and {hero} sailed a [leaf|shoe|hat|cork|paper boat] on it.
- And [then|suddenly|at <hour>] it was over, and a rainbow stood [on|above|at the end of] {street}.
- When it stopped, {pet} {pet.glad}.
- Afterwards the [hat|umbrella|basket|boot] was found. A <mood> <beast> was living in it.

# ------------------------------------------------------------------------------------ a long swap

swap:
- <swap.first>{one.holder:hero} [3:<aside> |2:]<swap.second>{one.holder:other}{two.holder:hero}
  [3:<aside> |2:]<swap.third>{two.holder:who}{three.holder:hero} <swap.end>

swap.first:
- [In the attic|Under the stairs|In a ditch|In the hen house|At the bottom of a drawer|On a fence]
  {she} found {one=things.a}. {hero} {one.used}, but [soon|after a while|by noon] that was dull.
- {friend} gave {him} {one=things.a}, for which {hero} had no use [at all|whatever|that day].
- {hero} won {one=things.a} at the [fair|raffle|village show|market]. It was not what {she} had
  [hoped for|wanted|dreamed of].
- "What [shall I|am I to|can one] do with {one=things.a}?" <said> {hero}[ <how>|]. It had come from
  [an uncle|an aunt|a cousin|a stranger] by post.

swap.second:
- Here came {other=people}, who had {two=things.a} and was [tired|sick|ashamed] of it. "Swap?"
  "[Swap|Done|Yes]!" Now {hero} had the {two}, and {other} the {one}.
- On a <look> <spot> sat {other=people} with {two=things.a}. {hero} held out the {one}. They [shook
  hands on it|nodded|did not have to say a word].
- "I would give {two=things.a} for that," <said> {other=people}. So it was done. {other}
  {one.used}, and {hero} {two.used}.

swap.third:
- Then came {who=folk}. "{who.motto}," <said> {who}. "{two.A}! I have always [wanted|needed|dreamed
  of] one." And {hero} got {three=foods.some} for it.
- But {who=folk} needed just such {two.a}, and gave {three=foods.some} for it.
- {who=folk.Text} stopped. "{who.motto}! Will you take {three=foods.some} for the {two}?" {hero}
  would.

swap.end:
- {friend} was hungry, so they ate {three.it} [on the steps|on a wall|in a tree|under the table|on
  the roof]. {three.Text}, and all for {one.a}!
- And the {three}? {hero} gave {three.it} to {other}, and got the {one} back. <She> had missed it.
- {pet} ate {three.it}. So in the end {hero} had nothing, {other} had the {one}, and {who} had the
  {two}.
- At home {she} told it all: first the {one}, then the {two}, then the {three}. "And what have you
  got now?" "[A tummy ache|Nothing|Crumbs|A good story]," <said> {hero}[ <how>|].

# ---------------------------------------------------------------------------------------- a race

race:
- <race.dare> [3:<aside> |2:]<race.start> <race.middle> [3:<aside> |2:]<race.trouble> <race.win>

race.dare:
- "I am [faster|quicker|stronger] than you," <said> {other=people}. "From {from=places} to
  {to=places}. The winner gets {prize=foods.some}."
- [Every year|Each spring|Every summer|Now and then] there was a race from {from=places} to
  {to=places}, and the prize was {prize=things.a}. This [year|time] {hero} ran against
  {other=people}.
- {other=people} said that nobody could run from {from=places} to {to=places} [before the bell
  rang|in <hour> minutes|without falling over|with one eye shut]. {hero} said, "I can. I bet
  {prize=things.a}."

race.start:
- "One, two," <said> {friend}, and at "two" {other} ran.
- {friend} dropped [a handkerchief|a plate|an egg|a hat|a spoon], and off they went from {from}.
- {who=folk.Text} counted to [three|five|ten]. "{who.motto}," {who.she} added, and they ran.

race.middle:
- {hero} [puffed|panted|ran with {her} mouth open|had a stitch|sang]. {other} ran like a <mood>
  [hare|train|goat|deer|chicken|thief|postman].
- At first {other} was ahead, and then {hero}, and then a <mood> <beast> that nobody knew.
- {pet} the {pet.kind} {pet.went} along behind, [without hurry|in no hurry at all|with a stick|for
  company].

race.trouble:
- Halfway, {other} tripped over [a root|a hen|{other.her} own feet|{odd=odds}|a cat|a rake].
  <race.kind>
- Then {hero} lost [a shoe|a boot|a sandal], and ran on with one [bare foot|warm foot and one cold
  one|sock].
- In the [middle of the road|grass|mud] lay {thing=things.a}. {hero} jumped over it. {other}
  stopped and {thing.used}.
- On the [bridge|path|road|hill] stood a <mood> {crowd=animals}, which {crowd.cried} and would not
  move. They both [had to crawl under it|went round by the ditch|took off their hats to it].

race.kind:
- {hero} could have [run|gone] on. {She} turned round and helped {other.him} up.
- {hero} ran on, and then was sorry, and ran back.

race.win:
- They came to {to} side by side, so they shared the {prize}[| and the cheering| and the blisters].
- {winner:hero}{hero} was the first to reach {to}, by [a nose|an inch|one breath|a toe|a long way].
  {loser:other}<race.gracious>
- {winner:other}{loser:hero}It was {other} who touched {to} first. <race.gracious>

race.gracious:
- {winner} got the {prize} and {loser} got [a cheer|a hug|a bun|a chair|the laughs].
- "Well run," <said> {loser}, and {winner} [blushed|bowed|grinned|fell over].
- {winner} shared the {prize} with {loser}, [because running is better in twos|for that is fair|as
  everybody had hoped|without being asked].

# ------------------------------------------------------------------------------ a secret supper

feast:
- <feast.odd> <feast.secret> [3:<aside> |2:]<feast.alone> <feast.call> [3:<aside> |2:]<feast.there>
  <feast.food>

feast.odd:
- It was {her} birthday, and nobody [said a word about it|seemed to know|had sung].
- [Something|A secret] was going on. {friend} whispered with {helper=people}, and they stopped when
  {hero} came in.
- All [day|week|morning] {friend} had no time. "I have to [buy|wash|mend|find|borrow|weigh] [a
  broom|a goat|my socks|the curtains|a ladder|a turnip|my uncle]," <said> {friend}[ <how>|].

feast.secret:
- There was [flour|sugar|butter|chalk|glue] on {friend.her} [nose|elbow|left ear|sleeve|hat], too.
- Somebody had [borrowed|taken|hidden] the [biggest pot|long table|good plates|recipe book|nine
  chairs].
- When {hero} asked why, {friend} [turned red|dropped a spoon|looked out of the window|talked about
  the weather|coughed|ran away].
- And {who=folk} winked at {him}. "{who.motto}," <said> {who}, and winked again.

feast.alone:
- {hero} {habit}. Even {pet} the {pet.kind} was [not to be found|out|nowhere].
- "Nobody likes me," {hero} told {her} {toy}. The {toy} [did not answer|agreed|said nothing|knew
  better].
- So {hero} went to {haunt} by {herself}, and [threw stones|talked to a duck|thought dark
  thoughts|counted to {count=numbers}|kicked a tin].

feast.call:
- At <hour> there was a knock. In the <look> doorway stood {messenger=folk}. "{messenger.motto},"
  <said> {messenger}, "and come with me."
- Then {pet} came with a note: "Come to {place=places}. Bring [a spoon|a chair|a bell|a clean
  shirt|an appetite|{odd=odds}]."
- On the [doormat|pillow|windowsill|gate] lay a note: "Come to {friend.street} at <hour>. Be
  [hungry|quick|quiet|brave]."

feast.there:
- There were [lanterns|paper stars|candles|flags|balloons], and everybody
  [shouted|sang|clapped|jumped up|threw hats].
- There stood a <look> table, and [all of|half of|everyone from] {street} sat round it.
- And there was {friend} in [a paper hat|a clean shirt|an apron|a cardboard crown], grinning from
  ear to ear.
- {g1=people} was there, and {g2=people}, and {g3=people} with {g3.pet} the {g3.pet.kind}.

feast.food:
- In the middle [steamed|stood|shone|waited] {food.some}. {hero} had to sit down, {she} was so
  happy.
- "We made {food.some}," <said> {friend}[ <how>|]. "It was hard to keep quiet, with that smell."
- There was only one dish, but it was {food}. {She} ate until {her} [ears were warm|chair
  creaked|buttons hurt|eyes closed].

# ------------------------------------------------------------------------------------ a quarrel

quarrel:
- <quarrel.cause> [3:<aside> |2:]<quarrel.words> <quarrel.apart> [3:<aside> |2:]<quarrel.turn>
  <quarrel.peace>

quarrel.cause:
- {hero} and {friend} found {thing=things.a} {place=places.at}. "I saw it first," <said> {hero}[
  <how>|]. "I [picked it up|touched it first|smelled it first]," <said> {friend}[ <how>|].
- {friend} had borrowed {hero}'s {thing=things} and [dropped it in|left it out in|sat on it in|lent
  it to somebody in] the [soup|rain|bath|snow|pond|mud].
- {hero} said that {friend.food} tasted of [soap|chalk|boots|fish]. {friend} said that {food}
  [tasted|smelled] of [feet|rope|old hats|wet dog]. And then they both wanted {thing=things.a}.

quarrel.words:
- "[Cabbage|Sausage|Wet sock|Noodle|Codfish|Turnip|Doormat]!" shouted {hero}.
  "[Pudding|Doorknob|Old boot|Dumpling|Herring|Broomstick|Gherkin]!" shouted {friend}.
- They [pulled|tugged|tore] at the {thing} until [it|something] [creaked|squeaked|cracked].
- Neither of them would [give in|say sorry|let go|look up|go first]. The {thing} lay between them.

quarrel.apart:
- {friend} went to {friend.haunt} and {hero} to {haunt}, which is [as far apart as one can get|a
  long way|no way to be friends].
- {hero} [stamped|stalked|marched|ran] home to {street}, and {friend} to {friend.street}.
- For [two|three|four|five|six|seven|nine] [days|hours|evenings] they did not speak. {hero}
  {habit}. {friend} {friend.habit}.

quarrel.turn:
- It was dull without {friend}. Even {toy.a} is [no good|dull|lonely|half as good] alone.
- {pet} the {pet.kind} would not [eat|play|come out], and [looked|stared|sighed] at the
  [door|wall|ceiling].
- {who=folk.Text} looked at {her} face. "{who.motto}," <said> {who}. "But say sorry first."
- At night {hero} heard {fear} in every [creak|shadow|whisper], and there was nobody to tell.

quarrel.peace:
- Then {hero} made {friend.food.some} and put {friend.food.it} on the step in {friend.street}.
  {friend} opened the door with {food.some}. They both [laughed|cried|blushed|ate].
- In the morning {friend} stood at the [gate|door|window] with the {thing}. "You have it." "No,
  you." So they [shared it|cut it in half|gave it to {other=people}|took turns].
- "Sorry," <said> {hero}[ <how>|]. "Sorry," <said> {friend}, at the same time. {hero} {thing.used},
  and then it was {friend}'s turn.

# ------------------------------------------------------------------------------ making something

build:
- <build.plan> <build.first> [3:<aside> |2:]<build.second> <build.work> [3:<aside> |2:]<build.test>
  <build.after>

build.plan:
- "Let us [build|make|try to make] {craft=crafts.a}," <said> {hero} to {friend}.
- {hero} had drawn {craft=crafts.a} on the back of [a bill|a letter|a map|{her} hand|the
  wallpaper]. {friend} turned it round and [nodded|frowned|whistled].
- {friend} had [read|heard|dreamed|been told] how to make {craft=crafts.a}. It [looked|sounded]
  [easy|simple|like fun|dangerous].

build.first:
- They needed [wood|planks|nails|paint|rope|canvas], and {other=people} had some[ in
  {other.home}|].
- {who=folk.Text} lent them [a hammer|a saw|a drill|pincers|glue]. "{who.motto}," <said> {who}.
- From the shed they took {o1=odds}, {o2=odds} and {part=things.a}.

build.second:
- {friend} brought {piece=things.a}, which had to go in somewhere.
- It needed a name, so they called it the [Flying|Jolly|Brave|Golden|Wobbly|Royal|Lucky] {pet}.
- In the middle of it all they [stopped|sat down|went home] for {food}.
- They argued about the [colour|size|front|wheels|door] for [an hour|two hours|half a day].

build.work:
- {hero} sawed and {friend} hammered, mostly on {friend.her} [thumb|toe|own foot].
- {pet} the {pet.kind} {pet.naughty}, so they had to start again.
- By [noon|dusk|Friday|teatime|Sunday|<hour> o'clock] it stood there, a bit
  [crooked|wobbly|short|sticky], and it smelled of [glue|paint|tar|cheese].

build.test:
- They [took|dragged|carried|rolled] it to {place=places}. The {craft}
  [{craft.well}|{craft.badly}].
- {place=places.Text} was the place to try it. The {craft} [{craft.well}|{craft.badly}].

build.after:
- "The next one will be [bigger|red|smaller|yours|made of cheese]," <said> {friend}[ <how>|].
- "It is the best {craft} on {street}," <said> {hero}, and that was true, for there was no other.
- {pet} [moved|climbed|crept] in and would not come out.
- They laughed so much that {guest=people} came to see. By [evening|six|dark] there was a queue.

# ------------------------------------------------------------------------------ the pet runs off

runaway:
- <runaway.gone> <runaway.call> [3:<aside> |2:]<runaway.trace> <runaway.ask> [3:<aside>
  |2:]<runaway.there> <runaway.home>

runaway.gone:
- The basket by the <look> [stove|door|bed|window] was empty. {pet} the {pet.kind} had gone.
- "Where is {pet}?" <asked> {hero}[ <how>|]. There was no {pet.kind} in the [house|kitchen|cellar],
  and none in the [yard|garden|shed].
- {pet} the {pet.kind} {pet.naughty}. {hero} [shouted|was cross|stamped {her} foot], and {pet} ran
  away.

runaway.call:
- {hero} called "{pet}!" up {street} and down {street}. No "{pet.sound}" came back.
- {hero} {habit}, and then {she} went to look.
- {friend} took the left side of the road, and {hero} took the right. They met {o1=people} and
  {o2=people}, but no {pet.kind}.

runaway.trace:
- There were [tracks|small tracks|marks|hairs] in the [mud|grass|snow|sand], and they [led|pointed]
  to {place=places}.
- A trail of crumbs led [towards|in the direction of] {place=places}. They were crumbs of {food}.
- "I saw {pet.a} with [a sausage|a hat|a sock|{odd=odds}]," <said> {other=people}. "It was going to
  {place=places}."

runaway.ask:
- {who=folk.Text} was standing {place.at}. "{who.motto}," <said> {who}, and pointed
  [left|right|up|with a spoon].
- {hero} stood still and listened. "{pet.sound}," said [something|somebody|a voice].
- It was getting dark {place.at}, and {she} thought of {fear}. But {she} [went on|walked on|called
  again].

runaway.there:
- And {nook=place.nooks} sat {pet}, with a <mood> {new=animals} for company.
- And there, {nook=place.nooks}, was {pet}, [fast asleep|sitting|curled up|snoring] on
  {thing=things.a}.
- {pet} was {nook=place.nooks}, and {pet.cried} as if nothing had happened.

runaway.home:
- {hero} was too glad to be cross. They {pet.went} home together.
- "Never do that again," <said> {hero}[ <how>|]. {pet} {pet.glad}.
- That evening {pet} got {food} too, in {pet.her} own [dish|bowl|hat].

# ------------------------------------------------------------------------------- the wrong parcel

parcel:
- <parcel.comes> <parcel.guess> [3:<aside> |2:]<parcel.way> <parcel.door> [3:<aside>
  |2:]<parcel.open> <parcel.thanks>

parcel.comes:
- A <look> [parcel|box|crate|trunk|sack] came, but it was not for {hero}. On it stood the name of
  {other=people}.
- There was a parcel on the [step|doormat|windowsill|roof]. "For {other=people}," {hero} read. The
  postman had been [dreaming|singing|reading] again.
- A <look> [cart|van|bicycle|sledge] went by too fast, and a parcel fell off. It was for
  {other=people}.

parcel.guess:
- It [rattled|ticked|smelled of soap|was soft at one end|hummed|was as heavy as a cat|gurgled].
  {hero} {habit}.
- "Open it," <said> {friend}[ <how>|]. "No," <said> {hero}, though {her} fingers itched.
- What could it be? {hero} hoped for {food}. {friend} hoped for {wish=things.a}.
- "It is {wish=things.a}," <said> {friend}[ <how>|]. "It is {o1=odds}," <said> {hero}[ <how>|].
  They shook it. It was [neither|a riddle].

parcel.way:
- {hero} tied it to {pet} the {pet.kind}, who {pet.went} ahead.
- {hero} carried it past {place=places} and {place2=places}, and changed arms {count=numbers}
  times.
- {who=folk.Text} knew the way. "{who.motto}," <said> {who}. "{other} lives on {other.street}."

parcel.door:
- {other} lived in {other.home} on {other.street}. {hero} [rang|knocked|whistled|called]
  [once|twice|three times].
- On {other.street} stood {other.home}. "Is this {other}?" "It is," <said> {other}[ <how>|].
- It was {other.pet} who came to the door, {other.pet.a}. And then came {other}.

parcel.open:
- In the parcel was {gift=things.a}. {other} {gift.used}.
- There was paper, and more paper, and then {gift=things.a}. "From my
  [aunt|uncle|sister|godmother]," <said> {other}[ <how>|].
- {other} pulled the string. Out came {gift=things.a}, and a card: "[Do not eat this|Happy
  birthday|Sorry|Handle with care|Guess who]."

parcel.thanks:
- "Stay for supper," <said> {other}[ <how>|]. "There {other.food.is} {other.food}." So {hero}
  stayed.
- {other} gave {hero} {other.food.some} for the way home. {hero} shared {other.food.it} with
  {friend}.
- After that {hero} and {other} wrote to each other every {day=days}, and sent parcels on purpose.

# ------------------------------------------------------------------------------------ being brave

dare:
- <dare.need> [3:<aside> |2:]<dare.fear> <dare.step> [3:<aside> |2:]<dare.deep> <dare.done>

dare.need:
- One evening {pet} the {pet.kind} was stuck {place=places.at}, and [somebody|someone] had to go.
- {friend}'s {friend.toy} had been left {place=places.at}, and it was [getting dark|late|nearly
  <hour>|raining].
- Nobody dared to stay {place=places.at} until [midnight|<hour>|the moon rose]. That was what
  {other=people} said.

dare.fear:
- But {hero} was afraid of {fear}, and there was no getting round it.
- "I would go," <said> {hero}, "if it were not for {fear}."
- [Now|You see|As we know], {place} is [no place|the wrong place|not the best place] for a child
  who is afraid of {fear}.

dare.step:
- {hero} {habit}. Then {she} took [one step|a deep breath|{friend} by the hand|the lantern|another
  step].
- {friend} lent {him} {charm=things.a}. "Hold this," {friend.she} <said>. "It [always|nearly
  always|never] [works|helps|fails]."
- {hero} put {her} {toy} under one arm and [shut one eye|began to sing|went|counted to
  {count=numbers}].

dare.deep:
- Something went [crack|hoo|plop|snap|drip|tick|sniff]. {hero} stood [still|as still as a post|like
  a stone|on tiptoe].
- It was [cold|dark|very quiet|damp|black] {nook=place.nooks}. {She} thought hard about {food}.
- Something [moved|stirred|breathed|rustled] {nook=place.nooks}. It was only a <mood>
  {ghost=animals}, and it was more afraid than {hero} was.

dare.done:
- And then it was done, and it had taken <hour> minutes. {friend} thought it was [an hour|a year|a
  week|a second].
- "Were you afraid?" <asked> {friend}[ <how>|]. "Only [before|at the start|in the middle|after|for
  the first hour]," <said> {hero}[ <how>|].
- {hero} came back with [leaves|straw|cobwebs|feathers|mud|moss] in {her} hair. "{fear.Text}?"
  {she} <said>. "Pooh."

# ------------------------------------------------------------------------------ three things to buy

errand:
- <errand.list> [3:<aside> |2:]<errand.way> <errand.shop> [3:<aside> |2:]<errand.forget>
  <errand.end>

errand.list:
- "Bring {one=things.a}, {two=things.a} and {three=foods.some}," <said> {sender=folk}. "Can you
  [keep|hold|carry] that in your head?"
- {sender=folk.Text} sent {hero} to the [shop|market|village|town] for {one=things.a},
  {two=things.a} and {three=foods.some}.
- There were three things to buy for {sender=folk}: {one=things.a}, {two=things.a} and
  {three=foods.some}. {hero} knew the list [by heart|backwards|at once].

errand.way:
- "The {one}, the {two}, the {three}," {hero} said at every [step|corner|lamp-post|gate|puddle].
- {hero} made a song of it: {one.a}, {two.a}, {three.some}, [tra-la|fa-la-la|tum-tum|hey-ho].
- At the [corner|pump|crossing] {hero} met {other=people}, who talked for [an hour|ages|a very long
  time] about {other.hobby}.
- {pet} the {pet.kind} came along to carry the [basket|money|bag|umbrella].

errand.shop:
- In the shop {she} <said>, "{one.A}, please, and {two.a}, and ..." And [the third|what else|then
  what]?
- The {two} was [easy|there|cheap|in the window]. The {one} was on the [top|bottom|middle] shelf.
  But the third thing was gone from {her} head.
- "What will it be?" {hero} opened {her} mouth, and only the {one} and the {two} came out.

errand.forget:
- {hero} {habit}. Was it {wrong=things.a}? Was it {food}?
- "{wrong=foods.Text}?" asked the [shopkeeper|man|lady]. "{wrong2=foods.Text}?" It was neither of
  the two.
- {pet} [sniffed|looked|stared] at a shelf, and then at {hero}, and then at the shelf again.
- It was not {o1=odds}, and it was not {o2=odds}. It [began|did not begin] with a P.

errand.end:
- Then a smell came round the corner. The {three}! {hero} ran all the way to {sender} with
  everything.
- "The {three}!" {she} cried, so loudly that [a jar|a broom|a lady|an old man|a pile of tins] fell
  over. [Everything was there|Nothing was missing].
- So {hero} came back without the {three}. "{sender.motto}," <said> {sender}, and went for
  {three.it} {sender.herself}.

# ----------------------------------------------------------------------------- a noise in the night

noise:
- <noise.hear> <noise.think> [3:<aside> |2:]<noise.go> <noise.search> [3:<aside> |2:]<noise.find>
  <noise.after>

noise.hear:
- That night there was a noise. "{beast=animals.sound}!" And again: "{beast.sound}!"
- [In the middle of the night|At <hour> in the night] {hero} sat up in bed.
  "{beast=animals.sound}," said something in the dark.
- {friend} had come to stay the night. They were almost asleep when something went
  "{beast=animals.sound}".

noise.think:
- It was not the [wind|clock|stairs|tap], and it was not {pet} the {pet.kind}, who [says|only ever
  says] "{pet.sound}".
- {hero} {habit}. {fear.Text}, perhaps?
- {She} pulled the blanket up to {her} [nose|chin|ears|eyes]. But the noise [went on|came
  closer|did not stop].

noise.go:
- <She> took {her} {toy}, just in case, and [went|crept|slid|tiptoed] down the stairs.
- "Who is there?" {hero} [called|whispered|asked]. Nobody [answered|spoke|coughed].
- <She> put on [one slipper|{her} boots|two coats|a saucepan|{her} hat] and lit a
  [candle|lamp|match].

noise.search:
- It was not in the [kitchen|cupboard|bath|piano], and it was not [under the stairs|in the
  cellar|behind the sofa|up the chimney].
- The [clock|tap|roof] [ticked|dripped|creaked]. {o1=odds.Text} lay on the [floor|table|mat], as
  always.
- The stairs creaked: one, two, three. <She> [jumped|stepped|flew] over the fourth.

noise.find:
- And there, [behind|on|beside|under] the <look> [stove|doormat|washtub|armchair|table|trunk],
  [sat|stood|was] a <mood> {beast} with wet feet.
- <She> opened the [back|front|cellar] door. In the [moonlight|rain|snow|fog] stood a <mood>
  {beast}. "{beast.sound}," it {beast.cried}.
- It came from the [hall|bathroom|larder|coal shed]. It was {beast.a}, with its head in
  {stuck=things.a}.

noise.after:
- {hero} gave it some {food}, and it [slept|stayed|sat|dreamed] by the fire until
  [morning|<hour>|the sun rose].
- In the morning they found out that it belonged to {owner=people}, on {owner.street}.
- "You might have knocked," <said> {hero}, and went back to bed. The {beast} went, too.

# --------------------------------------------------------------------------------- a seed is sown

garden:
- <garden.sow> [3:<aside> |2:]<garden.wait> <garden.more> [3:<aside> |2:]<garden.grow> <garden.end>

garden.sow:
- {hero} had one {crop=plants} seed. {She} put it into the ground {place=places.at} and [watered
  it|sat down beside it|said good night to it].
- "Plant this," <said> {friend}, and gave {him} {crop=plants.a} seed. {hero} dug a hole
  {place=places.at} with [a spoon|a stick|both hands|{odd=odds}].
- In place of [a penny|two pennies|thanks], {other=people} paid {him} [back |]with {crop=plants.a}
  seed. {hero} sowed it {place=places.at}.

garden.wait:
- On {first=days} there was nothing to see. On {first.next} there was nothing. On {first.next.next}
  there was [a slug|a crow|a weed|a puddle|{odd=odds}].
- {hero} went to look [every day|every morning|{count=numbers} times], and {pet} the {pet.kind}
  went, too.
- It takes time, [people|the neighbours|the books|the old ones] said. {hero} {habit}.

garden.more:
- {hero} [read|sang|talked] to it, [mostly about|and told it about] {hobby}.
- To keep off the [birds|crows|slugs|boys|deer] {she} put {guard=things.a} on a stick beside it.
- {who=folk.Text} looked over the fence. "{who.motto}," <said> {who}, which was no help.

garden.grow:
- Then it rained, and up it came. By [June|July|August|harvest time|September] {hero} had
  {crop.grown}.
- And one [fine|fresh|bright|wet] [day|morning] there it was: {crop.grown}!
- Something [green|pale|small] came up, and then something [round|strange|big]. It was
  {crop.grown}.

garden.end:
- {friend} helped to carry it home, and they were out of breath for [an hour|a week|<hour>
  minutes].
- It won a prize, which was {prize=things.a}. {hero} {prize.used}.
- Everybody on {street} got a piece, even {guest=people}, who [does not care for {crop} at all|only
  eats {guest.food}].
- {hero} could not eat it. It had become a friend. So {she} ate {food} and let it stand.

# ----------------------------------------------------------------------------------- the last lines

finish:
- 4:{frame.close}
- 2:<close.supper>
- <close.bed>
- <close.moral>

close.supper:
- For supper there {food.was} {food}, and [nobody|not even {pet}|no one but {pet}] left a crumb.
- [Later|Years later|That evening] {she} [wrote it all down|drew it all|told it all again], with
  {pet} the {pet.kind} in the [margin|middle|best part].

close.bed:
- In bed {she} told {her} {toy} all about it. [Some of it was true.|Twice.|It was a long story.|It
  listened well.]
- Then {hero} slept, and dreamed of a <mood> {dream=animals} that could
  [knit|sing|count|cook|read|play chess].

close.moral:
- "[Same again tomorrow|Shall we do it again|Was that a good day]?" {hero} asked {pet} the
  {pet.kind}. "{pet.sound}," said {pet}.
- {friend} [still talks about it|tells it differently|has a drawing of it on the wall|says that it
  was a {day=days}].
- And if you do not believe it, ask {friend}, who lives in {friend.home} on {friend.street}.

close.weather:
- By then {sky.end}.
- When {hero} looked out of the [window|door|attic window], {sky.end}.

close.day:
- All that was on {day}. On {day.next} [nothing happened at all|it was quiet|everyone slept
  late|{hero} did nothing].
- And {day.next} came, as it does after {day}.

close.home:
- On {street} the lamps went out, one after another.
- There is room for many stories in {home}.

close.food:
- You can guess what {she} had for supper. Yes, {food}.
- And {food} had never tasted so good.

close.hobby:
- The next [day|morning|Sunday] {hero} went back to {hobby}.
- "And now," <said> {hero}, "back to {hobby}."

close.pet:
- {pet} slept at {her} feet that night, and snored like a [saw|bear|small
  train|kettle|sailor|drain].
- And {pet}? {pet.She} {pet.glad}.

close.toy:
- That night the {toy} lay beside {her} bed, where it belongs.
- {Her} {toy} had seen it all, and said nothing.

close.fear:
- {hero} is still [afraid|a little afraid] of {fear}. But [a little|somewhat|much] less.
- As for {fear}, that is another story.

close.friend:
- Of course {she} told {friend} [everything|the whole story|all of it] [the next day|at once|before
  bedtime].

close.haunt:
- The next morning {she} was {haunt.at} again, as if nothing had happened.
- {haunt.Text} is still there, if you want to see where {hero} likes to sit.

close.habit:
- {hero} {habit} [once more|one last time|again], just to be sure.
- And nobody {habit} that night, not even {hero}.
"""
